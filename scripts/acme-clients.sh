#!/usr/bin/env bash
# Gets and builds the ACME clients that Debian does not have: `scripts/acme-clients.sh FOLDER` those that take seconds,
# `scripts/acme-clients.sh FOLDER all` also Caddy, Traefik and instant-acme, which take minutes. The test finds them by
# $ACME_CLIENTS.
set -euo pipefail
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
cd "$(dirname "$0")/.."
programs="$PWD/services/cert-service/test/helpers/acme-clients/programs"

(cd "$programs" && timeout --foreground 300 go build -trimpath -o "$folder/" ./lego5 ./autocert) &
mvn -q -B -f "$programs/acme4j" dependency:copy-dependencies -DoutputDirectory="$folder/acme4j/lib"
javac -cp "$folder/acme4j/lib/*" -d "$folder/acme4j" "$programs/acme4j/Acme4j.java"
npm install --silent --no-audit --no-fund --prefix "$folder/acme-client" acme-client@5.4.0
python3 -m venv "$folder/certbot"
"$folder/certbot/bin/pip" install -q --disable-pip-version-check certbot==5.8.0
# Its modules for ACME are in a wheel with hundreds of other collections.
python3 -m venv "$folder/ansible"
"$folder/ansible/bin/pip" install -q --disable-pip-version-check ansible-core==2.19.14 cryptography
(
  cd "$folder/ansible"
  bin/pip download -q --disable-pip-version-check --no-deps ansible==12.3.0
  bin/python -c "
import glob, zipfile
wheel = zipfile.ZipFile(glob.glob('ansible-*.whl')[0])
wheel.extractall(members=[name for name in wheel.namelist() if name.startswith('ansible_collections/community/crypto/')])"
  rm ansible-*.whl
)
wait $!

if [ "${2:-}" = all ]; then
  cargo build -q --release --locked --manifest-path "$programs/instant-acme/Cargo.toml" --target-dir "$folder/modules/rust"
  cp "$folder/modules/rust/release/instant-acme" "$folder/"
  caddy=github.com/caddyserver/caddy/v2/cmd/caddy
  mkdir -p "$folder/modules/caddy" "$folder/modules/traefik"
  cd "$folder/modules/caddy"
  [ -e go.mod ] || go mod init gatehouse.test/caddy
  go get "$caddy@v2.11.9"
  go build -trimpath -ldflags '-s -w' -o "$folder/caddy" "$caddy"
  if [ -z "${TRAEFIK:-}" ]; then
    cp "$OLDPWD/scripts/traefik.mod" "$folder/modules/traefik/go.mod"
    cd "$folder/modules/traefik"
    go build -mod=mod -o "$folder/traefik" github.com/traefik/traefik/v3/cmd/traefik
  fi
fi
