"""Makes a TLS connection for each line of standard input, and says on standard output what came of it."""

import socket
import ssl
import sys

SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])
PATIENCE = 20


def ask(protocol, host, port, path, roots, certificate, key):
    context = ssl.create_default_context(cafile=roots)
    if certificate != '-':
        context.load_cert_chain(certificate, key)
    with socket.create_connection(('127.0.0.1', int(port)), PATIENCE) as plain:
        if protocol == 'postgres':
            plain.sendall(SSL_REQUEST)
            if plain.recv(1) != b'S':
                raise OSError('no TLS')
        with context.wrap_socket(plain, server_hostname=host) as connection:
            if protocol == 'postgres':
                return 'connected'
            connection.sendall(f'GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n'.encode())
            with connection.makefile('rb') as answer:
                line = answer.readline().decode()
            return line.split()[1] if line else 'closed'


for line in sys.stdin:
    try:
        result = ask(*line.split())
    except OSError as error:
        result = f'{type(error).__name__} {error}'
    print(result.replace('\n', ' '), flush=True)
