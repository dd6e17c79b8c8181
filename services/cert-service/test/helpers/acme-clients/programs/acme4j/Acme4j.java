import java.io.FileReader;
import java.io.FileWriter;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyStore;
import java.security.Security;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.time.Duration;
import java.time.Instant;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.shredzone.acme4j.AccountBuilder;
import org.shredzone.acme4j.Certificate;
import org.shredzone.acme4j.Login;
import org.shredzone.acme4j.RevocationReason;
import org.shredzone.acme4j.Session;
import org.shredzone.acme4j.exception.AcmeRateLimitedException;
import org.shredzone.acme4j.util.KeyPairUtils;

/** Arguments: issue, renew, due or revoke, and a name. Its files are in the working directory. */
public class Acme4j {
  public static void main(String[] args) throws Exception {
    try {
      run(args[0], args[1]);
    } catch (AcmeRateLimitedException error) {
      System.err.println(error.getMessage() + " (retry after: " + error.getRetryAfter() + ")");
      System.exit(1);
    } catch (Exception error) {
      System.err.println(error);
      System.exit(1);
    }
  }

  private static void run(String action, String name) throws Exception {
    Security.addProvider(new BouncyCastleProvider());
    trust(Path.of(System.getenv("ROOT")));
    Session session = new Session(URI.create(System.getenv("DIRECTORY")));
    Login login = new AccountBuilder()
        .agreeToTermsOfService()
        .withKeyIdentifier(System.getenv("KID"), System.getenv("HMAC_KEY"))
        .useKeyPair(accountKey())
        .createLogin(session);
    Path file = Path.of(name + ".pem");
    Path urlFile = Path.of(name + ".url");
    if (action.equals("revoke")) {
      Certificate.revoke(login, read(file), RevocationReason.SUPERSEDED);
      return;
    }
    if (action.equals("due")) {
      var held = login.bindCertificate(URI.create(Files.readString(urlFile)).toURL());
      if (held.getRenewalInfo().renewalIsNotRequired(Instant.now())) {
        System.out.println("not due");
        return;
      }
    }
    var order = login.newOrder().domain(name).create();
    order.execute(KeyPairUtils.createECKeyPair("secp256r1"));
    var status = order.waitForCompletion(Duration.ofSeconds(60));
    if (order.getError().isPresent()) throw new Exception(status + ": " + order.getError().get());
    Certificate issued = order.getCertificate();
    try (var writer = new FileWriter(file.toFile())) {
      issued.writeCertificate(writer);
    }
    Files.writeString(urlFile, issued.getLocation().toString());
  }

  private static X509Certificate read(Path file) throws Exception {
    try (var in = Files.newInputStream(file)) {
      return (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(in);
    }
  }

  private static void trust(Path root) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    store.setCertificateEntry("root", read(root));
    try (var out = Files.newOutputStream(Path.of("trust.p12"))) {
      store.store(out, "changeit".toCharArray());
    }
    System.setProperty("javax.net.ssl.trustStore", "trust.p12");
    System.setProperty("javax.net.ssl.trustStorePassword", "changeit");
  }

  private static KeyPair accountKey() throws Exception {
    Path file = Path.of("account.key");
    if (Files.exists(file))
      try (var reader = new FileReader(file.toFile())) {
        return KeyPairUtils.readKeyPair(reader);
      }
    KeyPair made = KeyPairUtils.createECKeyPair("secp256r1");
    try (var writer = new FileWriter(file.toFile())) {
      KeyPairUtils.writeKeyPair(made, writer);
    }
    return made;
  }
}
