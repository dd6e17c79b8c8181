"""Reads a keystore as Python programs do: prints its name, key and certificates."""

import sys

from cryptography.hazmat.primitives.serialization import pkcs12

path, password = sys.argv[1:]
with open(path, "rb") as file:
    keystore = pkcs12.load_pkcs12(file.read(), password.encode())
key = type(keystore.key).__name__ if keystore.key else "no key"
certificates = [keystore.cert, *keystore.additional_certs] if keystore.cert else keystore.additional_certs
print(key, *(one.certificate.subject.rfc4514_string() for one in certificates))
