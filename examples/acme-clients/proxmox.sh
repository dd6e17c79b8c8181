# On one node of Proxmox VE, as root. Each node has to trust the root.
awk '/BEGIN CERTIFICATE/ { n++ } { print > ("/usr/local/share/ca-certificates/gatehouse-" n ".crt") }' root.pem
update-ca-certificates
pvesh create /cluster/acme/account --name gatehouse --contact ops@example.com \
  --directory https://certs.example.com:7401/acme/directory \
  --eab-kid web-1 --eab-hmac-key the-hmac-key
pvenode config set --acme account=gatehouse,domains=pve1.example.com
pvenode acme cert order
