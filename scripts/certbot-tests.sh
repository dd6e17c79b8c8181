#!/usr/bin/env bash
# Runs the integration tests of certbot, which are in no package, with cert-service as their CA:
# `scripts/certbot-tests.sh FOLDER [ARGUMENTS OF PYTEST]`, where FOLDER is a checkout of certbot. They take
# pebble-challtestsrv, and ports such as 5002, 8055 and 14000. 15 of the 56 of certbot 5.7 fail:
# - what cert-service does not offer: keys of P-521 (3), OCSP (4), OCSP must-staple (1), another certificate for the same
#   key before it is due (1);
# - what only Pebble offers: its management API (2);
# - names that are to fail, or to be proven, which the key of the caller gives (4).
set -euo pipefail
certbot="$(cd "$1" && pwd)"
shift
cd "$(dirname "$0")/.."
export PATH="$PWD/node_modules/.bin:$PATH"
work="$(mktemp -d)"
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

key="$(openssl rand -hex 32)"
cat >"$work/config.yaml" <<CONFIG
server: { port: 14000 }
metrics: { enabled: false }
storage: { path: data, masterKeyFile: keys/master.key }
limits: { perCaller: { issuancesPerMinute: 1000, burst: 1000 } }
auth: { psk: { keys: [{ name: certbot, key: $key, domains: ['*', '127.0.0.0/8', '::1/128'] }] } }
CONFIG
node --conditions=@gatehouse/source services/cert-service/src/main.ts serve --config "$work/config.yaml" \
  >"$work/log" &

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check -e "$certbot/acme" -e "$certbot/certbot" \
  -e "$certbot/certbot-ci"

# The tests register without a key: certbot takes it from its configuration.
mkdir -p "$work/letsencrypt"
curl -fsSk --retry 20 --retry-delay 1 --retry-connrefused -H "Authorization: APIKey $key" --json '{}' \
  https://localhost:14000/api/acme/key |
  jq -r '"eab-kid = \(.kid)\neab-hmac-key = \(.hmacKey)"' >"$work/letsencrypt/cli.ini"

# They would download these two.
cat >"$work/in_place_of_pebble.py" <<'PLUGIN'
import shutil
from certbot_integration_tests.utils import constants
constants.PEBBLE_DIRECTORY_URL = 'https://localhost:14000/acme/directory'
from certbot_integration_tests.utils import pebble_artifacts
programs = {'pebble': shutil.which('true'), 'pebble-challtestsrv': shutil.which('pebble-challtestsrv')}
pebble_artifacts._fetch_asset = lambda name, _folder: programs[name]
PLUGIN

PATH="$work/venv/bin:$PATH" XDG_CONFIG_HOME="$work" PYTHONPATH="$work" \
  pytest -p in_place_of_pebble "$certbot/certbot-ci/src/certbot_integration_tests/certbot_tests" "$@"
