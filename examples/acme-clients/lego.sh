# lego wants the key in every command, also to renew and to revoke.
export LEGO_CA_CERTIFICATES=/etc/gatehouse/root.pem
lego --path /var/lib/lego --server https://certs.example.com:7401/acme/directory \
  --eab --kid=web-1 --hmac=the-hmac-key --accept-tos --email ops@example.com \
  --http --domains app.example.com --domains www.example.com run
