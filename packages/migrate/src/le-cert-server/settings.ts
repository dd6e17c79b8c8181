import { type SettingTable, settings } from '../table.ts'

/** Every setting of le-cert-server, and what it becomes; both layouts of `auth` are in use. */
export const LE_CERT_SERVER: SettingTable = settings({
  'server.bind server.port': ['`server.host`, `server.port`', '127.0.0.1 and 7401 for both'],
  'server.listener':
    'with `tsnet`: use `tailscale serve` in front of it, or listen on the address in the tailnet',
  'server.tsnet.hostname server.tsnet.authKey server.tsnet.stateDir server.tsnet.ephemeral':
    'Gatehouse does not join a tailnet itself',
  'server.tls.letsEncryptDomain': [
    '`server.names`',
    'in a certificate of the own CA, which is renewed while it runs',
  ],
  'server.tls.path server.tls.certPEM server.tls.keyPEM': [
    '`server.tls.certFile`, `server.tls.keyFile`',
    'both or neither; without them `server.tls: off` on loopback, else `own`',
  ],
  'letsEncrypt.email letsEncrypt.staging': [
    '`issuers[].email`, `issuers[].directory`',
    'an issuer of type `acme`',
  ],
  'letsEncrypt.dnsProvider letsEncrypt.dnsCredentials.*': [
    '`issuers[].challenges`',
    'secrets become files; providers that Gatehouse does not have itself are reached by acme.sh',
  ],
  'letsEncrypt.renewalDays':
    'certificates are renewed at a share of their lifetime, or when the CA suggests it',
  'database.path':
    'the old database is not read: `storage.path` is a folder, whose keys are sealed with `storage.masterKeyFile`',
  'auth.method': ['`auth`', '`tsnet` has no counterpart'],
  'auth.psk.key': ['`auth.psk.keys[].keySha256`', 'its hash; clients keep their key'],
  [`auth.jwt.issuerUrl auth.jwt.audience auth.jwt.requiredScopes auth.jwt.domainsClaim
    auth.issuerUrl auth.audience auth.requiredScopes auth.domainsClaim`]: [
    '`auth.jwt`',
    'with the same keys; without `domainsClaim`, a token may have every name, as before',
  ],
  'logs.level logs.json': ['`log.level`, `log.format`'],
  'logs.omitHealthChecks': 'health checks are never logged',
})
