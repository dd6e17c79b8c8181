import {
  isOfSystem,
  readJsonSchema,
  statePrefix,
  writeNewFiles,
} from '@gatehouse/service-kit/program'

const START_UNIT = `systemd-tmpfiles --create gatehouse-forward-auth.conf
   systemctl enable --now gatehouse-forward-auth`

const configOf = (
  domain: string,
  state: string,
) => `# yaml-language-server: $schema=forward-auth.schema.json
# The configuration of forward-auth. All settings are in docs/reference/forward-auth.md.
# \`gatehouse-auth check-config\` reports all errors. Most changes take effect on SIGHUP.

server:
  host: 127.0.0.1
  # The address or host name of your proxy. Without this line only a proxy on this machine may ask.
  # trustedProxies: [traefik]

storage:
  path: ${state}data               # keys that the first start creates, sign-outs, and the audit trail

domains:
  - domain: ${domain}            # a session is valid for this domain and every host below it
    authHost: auth.${domain}     # the host of the sign-in pages

portals:
  - name: main
    providers:
      # Replace these four with the values of your identity provider; docs/identity-providers.md has a page
      # for each. Until then nobody can sign in.
      - type: openIDConnect
        name: corp
        issuerUrl: https://id.${domain}
        clientId: gatehouse
        clientSecretFile: client-secret
    # Only these people may use the portal at all:
    # allow:
    #   groups: [staff]
    # For routes that only some people may open (?policy=admins):
    # policies:
    #   admins: Group("admins")
`

/**
 * Writes a configuration, and a file for the client secret beside it. Nothing that exists is replaced.
 * @returns what to do next
 * @throws UsageError if one of the files exists
 */
export async function init(file = 'config.yaml', domain = 'example.com'): Promise<string> {
  const [config, secret] = await writeNewFiles(file, {
    '.': { text: configOf(domain, statePrefix(file, 'forward-auth')), mode: 0o644 },
    'client-secret': { text: 'replace-this-with-the-client-secret\n', mode: 0o600 },
    'forward-auth.schema.json': { text: readJsonSchema('forward-auth'), mode: 0o644 },
  })
  return `${config} is a configuration with comments.

1. Register a client at your identity provider. Its redirect URI is
   https://auth.${domain}/portals/main/providers/corp/callback
2. Write the provider into ${config}, and the client secret into ${secret}.
3. Check it, and start the service:

   gatehouse-auth check-config --config ${config}
   ${isOfSystem(file) ? START_UNIT : `gatehouse-auth serve --config ${config}`}

4. Have your proxy ask http://127.0.0.1:4181/portals/main; docs/ has a page for each.
`
}
