#!/usr/bin/env bash
# Makes stand-ins of node:24-bookworm-slim and of the images of Caddy, PostgreSQL and Traefik where nothing
# can be pulled: Debian by debootstrap with the Node and npm that are in PATH, and on top of it Debian's own
# Caddy and PostgreSQL, and the Traefik that TRAEFIK names, if it does.
#
#   scripts/base-image.sh <name for the Caddy image> <for the PostgreSQL image> <for the Traefik image>
#
# Needs root, debootstrap and a Docker engine.
set -euo pipefail

caddy_image="${1:?which name shall the image of Caddy have?}"
postgres_image="${2:?which name shall the image of PostgreSQL have?}"
traefik_image="${3:?which name shall the image of Traefik have?}"
npm="$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")"
root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=ca-certificates bookworm "$root" >&2
install -D "$(readlink -f "$(command -v node)")" "$root/usr/local/bin/node"
install -d "$root/usr/local/lib/node_modules"
cp -a "$npm" "$root/usr/local/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
ln -s ../lib/node_modules/npm/bin/npx-cli.js "$root/usr/local/bin/npx"
chroot "$root" groupadd --gid 1000 node
chroot "$root" useradd --uid 1000 --gid node --create-home node
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,locale,man}

# What this machine has to trust, the images have to.
trust=()
if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then
  bundle=/etc/ssl/certs/ca-certificates.crt
  cp "$NODE_EXTRA_CA_CERTS" "$root$bundle"
  trust=(--change "ENV NODE_EXTRA_CA_CERTS=$bundle")
fi
tar --directory "$root" --create . |
  docker import --change 'CMD ["node"]' "${trust[@]}" - node:24-bookworm-slim >&2

docker build --tag "$caddy_image" - >&2 <<'DOCKERFILE' &
FROM node:24-bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends caddy && rm -rf /var/lib/apt/lists/*
ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
DOCKERFILE
caddy_build=$!

# Of the official image's entrypoint, what compose.replicas.yml uses: it makes the database at the first start
# and runs the SQL files of a folder, while the server listens on a socket only.
context="$root/postgres-image"
install -d "$context"
cat > "$context/docker-entrypoint.sh" <<'ENTRYPOINT'
#!/bin/bash
set -euo pipefail
install -d -m 0700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=trust
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  pg_ctl --options="-c listen_addresses=''" --wait start
  psql -v ON_ERROR_STOP=1 -U postgres -c "CREATE DATABASE \"$POSTGRES_DB\""
  for file in /docker-entrypoint-initdb.d/*.sql; do
    psql -v ON_ERROR_STOP=1 -U postgres -d "$POSTGRES_DB" -f "$file"
  done
  pg_ctl --mode=fast --wait stop
fi
exec "$@" -c 'listen_addresses=*'
ENTRYPOINT
chmod 755 "$context/docker-entrypoint.sh"
docker build --tag "$postgres_image" --file - "$context" >&2 <<'DOCKERFILE'
FROM node:24-bookworm-slim
RUN install -d /etc/postgresql-common \
 && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
 && apt-get update && apt-get install --yes --no-install-recommends postgresql-15 && rm -rf /var/lib/apt/lists/* \
 && install -d -m 1777 /var/lib/postgresql && install -d -m 3777 /var/run/postgresql
ENV PATH=$PATH:/usr/lib/postgresql/15/bin PGDATA=/var/lib/postgresql/15/docker
VOLUME /var/lib/postgresql
COPY docker-entrypoint.sh /usr/local/bin/
ENTRYPOINT ["docker-entrypoint.sh"]
STOPSIGNAL SIGINT
CMD ["postgres"]
DOCKERFILE
wait "$caddy_build"

if [ -n "${TRAEFIK:-}" ]; then
  context="$root/traefik-image"
  install -D "$TRAEFIK" "$context/traefik"
  docker build --tag "$traefik_image" --file - "$context" >&2 <<'DOCKERFILE'
FROM node:24-bookworm-slim
COPY traefik /usr/local/bin/
ENTRYPOINT ["traefik"]
DOCKERFILE
fi
