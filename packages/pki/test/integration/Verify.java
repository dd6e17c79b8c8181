import java.io.FileInputStream;
import java.security.cert.*;
import java.util.*;

/** Validates chains as PKIX says. Each argument is a PEM file: the leaf first, the root last. */
public class Verify {
  public static void main(String[] files) throws Exception {
    CertificateFactory factory = CertificateFactory.getInstance("X.509");
    for (String file : files) {
      List<X509Certificate> all = new ArrayList<>();
      try (FileInputStream in = new FileInputStream(file)) {
        for (Certificate one : factory.generateCertificates(in)) all.add((X509Certificate) one);
      }
      X509Certificate root = all.remove(all.size() - 1);
      PKIXParameters parameters = new PKIXParameters(Set.of(new TrustAnchor(root, null)));
      parameters.setRevocationEnabled(false);
      String result;
      try {
        CertPathValidator.getInstance("PKIX").validate(factory.generateCertPath(all), parameters);
        result = "OK";
      } catch (Exception error) {
        result = error.toString();
      }
      System.out.println(file + ": " + result);
    }
  }
}
