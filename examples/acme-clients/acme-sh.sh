acme.sh --register-account --server https://certs.example.com:7401/acme/directory \
  --ca-bundle /etc/gatehouse/root.pem --eab-kid web-1 --eab-hmac-key the-hmac-key
acme.sh --issue --server https://certs.example.com:7401/acme/directory \
  --ca-bundle /etc/gatehouse/root.pem --webroot /var/www/html -d app.example.com -d www.example.com
