# The key is needed once: certbot keeps its account. REQUESTS_CA_BUNDLE is needed at each renewal too.
export REQUESTS_CA_BUNDLE=/etc/gatehouse/root.pem
certbot certonly --standalone -d app.example.com -d www.example.com \
  --server https://certs.example.com:7401/acme/directory \
  --eab-kid=web-1 --eab-hmac-key=the-hmac-key \
  --agree-tos --register-unsafely-without-email --non-interactive
