import { randomBytes } from 'node:crypto'
import {
  isOfSystem,
  readJsonSchema,
  statePrefix,
  writeNewFiles,
} from '@gatehouse/service-kit/program'

const START_UNIT = `systemd-tmpfiles --create gatehouse-cert-service.conf
  systemctl enable --now gatehouse-cert-service`

const configOf = (state: string) => `# yaml-language-server: $schema=cert-service.schema.json
# The configuration of cert-service. All settings are in docs/reference/cert-service.md.
# \`gatehouse-certs check-config\` reports all errors. Most changes take effect on SIGHUP.

server:
  host: 127.0.0.1          # 0.0.0.0 also serves other machines; then add the name that they use:
  # names: [certs.example.com]

storage:
  path: ${state}data               # certificates, and the private CA that the first start creates
  masterKeyFile: ${state}keys/master.key   # created at the first start; keep a copy, but not with the backups

auth:
  psk:
    keys:
      - name: admin
        keyFile: keys/admin.key    # may have every certificate
      # A key for each machine, with its own names (openssl rand -hex 32 | install -m 600 /dev/stdin keys/web.key):
      # - name: web
      #   keyFile: keys/web.key
      #   domains: [app.example.com, "*.app.example.com"]

# Certificates that are issued at the start and always renewed:
# certificates:
#   - names: [app.example.com]
`

/**
 * Writes a configuration and an API key beside it. Nothing that exists is replaced.
 * @returns what to do next
 * @throws UsageError if one of the files exists
 */
export async function init(file = 'config.yaml'): Promise<string> {
  const [config = '', key] = await writeNewFiles(file, {
    '.': { text: configOf(statePrefix(file, 'cert-service')), mode: 0o644 },
    'keys/admin.key': { text: `${randomBytes(32).toString('hex')}\n`, mode: 0o600 },
    'cert-service.schema.json': { text: readJsonSchema('cert-service'), mode: 0o644 },
  })
  return `${config} is a configuration with comments, and ${key} a new API key.

Start the service:

  ${isOfSystem(file) ? START_UNIT : `gatehouse-certs serve --config ${config}`}

Then, in another terminal, fetch the root of the new CA, and a certificate into ./tls:

  curl -sSk https://localhost:7401/ca/root.pem -o root.pem
  gatehouse-certs get app.example.com --out tls --ca root.pem --key-file ${key}

The same command keeps it up to date, from cron or with --watch, and reloads your server: docs/client.md.
certbot, Caddy and other ACME clients use https://localhost:7401/acme/directory: docs/acme-clients.md.
Programs can ask by HTTP instead:

  curl -sS --cacert root.pem -H "Authorization: APIKey $(cat ${key})" \\
    -H 'Content-Type: application/json' -d '{"domain":"app.example.com"}' \\
    https://localhost:7401/api/certificate
`
}
