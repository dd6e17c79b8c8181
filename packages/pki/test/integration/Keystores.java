import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.*;
import java.util.*;
import javax.net.ssl.*;

/**
 * Reads keystores. The arguments are the password and a truststore, then keystores. Prints a line for each type of the
 * truststore and of each keystore: what is in it, and whether a client that trusts the truststore connects to a server
 * with the key.
 */
public class Keystores {
  static final String[] TYPES = {"PKCS12", "JKS"};

  public static void main(String[] arguments) throws Exception {
    char[] password = arguments[0].toCharArray();
    for (String type : TYPES) {
      try {
        KeyStore trusted = open(arguments[1], type, password);
        int entries = 0;
        for (String alias : Collections.list(trusted.aliases())) if (trusted.isCertificateEntry(alias)) entries++;
        System.out.println(type + " truststore " + entries);
        for (String file : List.of(arguments).subList(2, arguments.length))
          System.out.println(type + " " + describe(open(file, type, password), password, trusted));
      } catch (java.io.IOException error) {
        System.out.println(type + " " + error.getMessage());
      }
    }
  }

  static KeyStore open(String file, String type, char[] password) throws Exception {
    KeyStore store = KeyStore.getInstance(type);
    try (FileInputStream in = new FileInputStream(file)) {
      store.load(in, password);
    }
    return store;
  }

  static String describe(KeyStore store, char[] password, KeyStore trusted) throws Exception {
    String alias = store.aliases().nextElement();
    StringBuilder chain = new StringBuilder();
    for (Certificate one : store.getCertificateChain(alias))
      chain.append(" < ").append(((X509Certificate) one).getSubjectX500Principal().getName());
    String algorithm = store.getKey(alias, password).getAlgorithm();
    // The TLS of Java knows no certificates with Ed25519.
    String served = algorithm.equals("EdDSA") ? "not served" : serve(store, password, trusted);
    return alias + " " + algorithm + chain + " " + served;
  }

  static String serve(KeyStore store, char[] password, KeyStore trusted) throws Exception {
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(store, password);
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    try (SSLServerSocket server = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(0)) {
      Thread answering = new Thread(() -> {
        try (SSLSocket accepted = (SSLSocket) server.accept()) {
          accepted.getOutputStream().write("hello".getBytes());
        } catch (java.io.IOException error) {
          // The client says what went wrong.
        }
      });
      answering.start();
      try (SSLSocket client = (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", server.getLocalPort())) {
        return new String(client.getInputStream().readAllBytes());
      } finally {
        answering.join();
      }
    }
  }
}
