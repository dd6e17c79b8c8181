import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/** Makes a TLS connection for each line of standard input, and says on standard output what came of it. */
class Client {
  private static final int PATIENCE_MS = 20_000;
  private static final byte[] SSL_REQUEST = {0, 0, 0, 8, 4, (byte) 210, 22, 47};
  private static final char[] NO_PASSWORD = {};

  public static void main(String[] args) throws IOException {
    var lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      String result;
      try {
        var fields = line.split(" ");
        result = ask(fields[0], fields[1], Integer.parseInt(fields[2]), fields[3], contextOf(fields));
      } catch (Exception error) {
        result = error.toString().replace('\n', ' ');
      }
      System.out.println(result);
    }
  }

  private static String ask(String protocol, String host, int port, String path, SSLContext context)
      throws Exception {
    try (var plain = new Socket("127.0.0.1", port)) {
      plain.setSoTimeout(PATIENCE_MS);
      if (protocol.equals("postgres")) {
        plain.getOutputStream().write(SSL_REQUEST);
        if (plain.getInputStream().read() != 'S') throw new IOException("no TLS");
      }
      try (var socket = (SSLSocket) context.getSocketFactory().createSocket(plain, host, port, true)) {
        SSLParameters parameters = socket.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        socket.setSSLParameters(parameters);
        socket.startHandshake();
        if (protocol.equals("postgres")) return "connected";
        var request = "GET " + path + " HTTP/1.0\r\nHost: " + host + "\r\n\r\n";
        socket.getOutputStream().write(request.getBytes());
        var answer = new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine();
        return answer == null ? "closed" : answer.split(" ")[1];
      }
    }
  }

  /** A new context each time has no sessions to resume. */
  private static SSLContext contextOf(String[] fields) throws Exception {
    var trusted = emptyStore();
    for (var root : certificatesOf(fields[4]))
      trusted.setCertificateEntry("root" + trusted.size(), root);
    var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    var context = SSLContext.getInstance("TLS");
    context.init(keysOf(fields[5], fields[6]), trust.getTrustManagers(), null);
    return context;
  }

  private static KeyManager[] keysOf(String certificateFile, String keyFile) throws Exception {
    if (certificateFile.equals("-")) return null;
    var pem = Files.readString(Path.of(keyFile)).replaceAll("-----[^-]+-----|\\s", "");
    var spec = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem));
    var key = KeyFactory.getInstance("EC").generatePrivate(spec);
    var own = emptyStore();
    own.setKeyEntry("own", key, NO_PASSWORD, certificatesOf(certificateFile).toArray(Certificate[]::new));
    var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(own, NO_PASSWORD);
    return keys.getKeyManagers();
  }

  private static KeyStore emptyStore() throws Exception {
    var store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    return store;
  }

  private static Collection<? extends Certificate> certificatesOf(String file) throws Exception {
    try (InputStream input = new FileInputStream(file)) {
      return CertificateFactory.getInstance("X.509").generateCertificates(input);
    }
  }
}
