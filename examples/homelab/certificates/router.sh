#!/bin/sh -eu
# certbot runs this when it has a new certificate of the router: certonly --deploy-hook /etc/gatehouse/router.sh
device=root@192.168.1.1
scp -q "$RENEWED_LINEAGE/fullchain.pem" "$device:/etc/uhttpd.crt"
scp -q "$RENEWED_LINEAGE/privkey.pem" "$device:/etc/uhttpd.key"
ssh "$device" /etc/init.d/uhttpd restart
