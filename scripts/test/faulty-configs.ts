/** A fault of a configuration: what is written in the place of a text that is there once. */
type Fault = readonly [title: string, there: string, instead: string]

interface Faulty {
  /** A configuration without a fault. */
  readonly sound: string
  /** What an editor marks, as check-config does, at the same line. */
  readonly marked: readonly Fault[]
  /** What only check-config sees: what one part says of another, and the syntax of names, URLs and conditions. */
  readonly unmarked: readonly Fault[]
}

const FORWARD_AUTH: Faulty = {
  sound: `server:
  host: 127.0.0.1
  port: 4181
  trustedProxies: [10.0.0.0/8]
metrics:
  enabled: true
log:
  level: info
session:
  keys:
    - secret: 0123456789abcdef0123456789abcdef
  lifetime: 8h
storage:
  url: postgres://gatehouse:secret@localhost/gatehouse
  whenStale: refuse
domains:
  - domain: example.com
    authHost: auth.example.com
portals:
  - name: main
    accent: "#0b6bcb"
    providers:
      - type: openIDConnect
        name: corp
        issuerUrl: https://id.example.com
        clientId: gatehouse
        clientSecret: some-secret
      - type: tailscaleWhois
        name: tailnet
        taggedDevices: false
    allow:
      groups: [staff]
    policies:
      admins:
        condition: Group("admins")
        maxAge: 1h
    headers:
      - default
      - name: X-Team
        claim: team
    callers:
      keys:
        - name: robot
          keySha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
          hosts: [app.example.com]
    rules:
      - hosts: [app.example.com]
        methods: [GET]
        require: admins
    loginLifetime: 10m
`,
  marked: [
    ['an unknown member at the top', 'portals:', 'portels: 1\nportals:'],
    ['an unknown member of a provider', 'taggedDevices:', 'tagedDevices:'],
    ['a member of another type of provider', 'taggedDevices: false', 'issuerUrl: https://id'],
    ['a text for a number', 'port: 4181', 'port: https'],
    ['a number in quotes', 'port: 4181', 'port: "4181"'],
    ['a number that is too large', 'port: 4181', 'port: 70000'],
    ['a text for a list', '[10.0.0.0/8]', '10.0.0.0/8'],
    ['a value without quotes', 'name: corp', 'name: 7'],
    ['an unknown word', 'level: info', 'level: loud'],
    ['an unknown type of provider', 'type: tailscaleWhois', 'type: tailscale'],
    ['a member without a value', 'enabled: true', 'enabled:'],
    ['a member that is missing', '    authHost', '  - authHost'],
    ['a secret that is missing', '        clientSecret: some-secret\n', ''],
    ['a secret that is too short', 'secret: 0123456789abcdef0123456789abcdef', 'secret: short'],
    ['a list without items', 'groups: [staff]', 'groups: []'],
    ['another pattern', 'accent: "#0b6bcb"', 'accent: blue'],
    ['no duration', 'maxAge: 1h', 'maxAge: 1 hour'],
    [
      'a secret and its file',
      'clientSecret: some',
      'clientSecretFile: a\n        clientSecret: some',
    ],
    [
      'a secret and an assertion',
      'clientSecret: some',
      'clientAssertion: { type: azureManagedIdentity }\n        clientSecret: some',
    ],
    ['a folder and a database', 'whenStale: refuse', 'path: data'],
    ['a member that is no longer known', 'loginLifetime', 'sessionLifetime'],
    ['a header of two kinds', 'claim: team', 'claim: team\n        property: email'],
    ['a key and its hash', 'keySha256', 'key: 0123456789abcdef\n          keySha256'],
    [
      'a parameter of Gatehouse itself',
      'name: corp',
      'name: corp\n        authorizationParameters: { state: x }',
    ],
    ['a name of a policy with capitals', 'admins:\n', 'Admins:\n'],
    [
      'a database without session keys',
      `  keys:\n    - secret: 0123456789abcdef0123456789abcdef\n`,
      '',
    ],
  ],
  unmarked: [
    ['a policy that there is not', 'require: admins', 'require: operators'],
    ['a name that is taken', 'name: tailnet', 'name: corp'],
    ['a host of another domain', '- hosts: [app.example.com]', '- hosts: [app.example.org]'],
    ['a duration that is out of bounds', 'loginLifetime: 10m', 'loginLifetime: 10d'],
    ['no URL', 'https://id.example.com', 'id.example.com'],
    ['no network', '10.0.0.0/8', '10.0.0.1/8'],
    ['no condition', 'Group("admins")', 'Group(admins'],
    ['a variable that is not set', 'clientId: gatehouse', `clientId: $\{UNSET}`],
    ['people by address without proxies', '  trustedProxies: [10.0.0.0/8]\n', ''],
  ],
}

const CERT_SERVICE: Faulty = {
  sound: `server:
  host: 127.0.0.1
  port: 7401
  tls: own
  plainHttp: { port: 7480 }
storage:
  path: data
  retention: 30d
auth:
  psk:
    keys:
      - name: admin
        key: 0123456789abcdef
      - name: web
        key: fedcba9876543210
        domains: [app.example.com]
        rights: [issue]
  jwt:
    issuerUrl: https://id.example.com
    audience: certs
  mtls:
    callers:
      - name: app
        dns: app.example.com
        domains: [app.example.com]
rules:
  - names: ["*.example.com"]
    subject: robot
ca:
  name: Example
issuers:
  - name: public
    type: acme
    directory: letsencrypt
    agreeToTerms: true
    email: admin@example.com
    challenges:
      - type: http-01
      - type: dns-01
        providers:
          - type: azure
            subscriptionId: a
            resourceGroup: b
            tenantId: c
            clientId: d
            clientSecret: e
        propagation:
          check: none
limits:
  perCaller:
    burst: 10
certificates:
  - names: [app.example.com]
    keyType: p256
events:
  receivers:
    - name: mail
      type: email
      host: mail.example.com
      from: gatehouse@example.com
      to: [admin@example.com]
      user: gatehouse
      password: secret
`,
  marked: [
    ['an unknown member at the top', 'issuers:', 'isuers: 1\nissuers:'],
    ['an unknown member of a solver', 'resourceGroup: b', 'resourceGroup: b\n            zone: x'],
    ['a member of another solver', 'resourceGroup: b', 'resourceGroup: b\n            apiToken: x'],
    ['a text for a number', 'burst: 10', 'burst: ten'],
    ['a number that is too small', 'burst: 10', 'burst: 0'],
    ['a number with a part', 'burst: 10', 'burst: 1.5'],
    ['a text for a list', 'rights: [issue]', 'rights: issue'],
    ['a text for a mapping', 'plainHttp: { port: 7480 }', 'plainHttp: 7480'],
    ['a list for a mapping', 'perCaller:', 'perName: []\n  perCaller:'],
    ['an unknown word', 'check: none', 'check: no'],
    ['an unknown word of a list', 'rights: [issue]', 'rights: [sign]'],
    ['an unknown word beside mappings', 'tls: own', 'tls: on'],
    ['an unknown type of solver', 'type: azure', 'type: azur'],
    ['an unknown type of challenge', 'type: http-01', 'type: http-1'],
    ['a key type of no ACME CA', 'email: admin@example.com', 'keyType: ed25519'],
    ['a member that is missing', '      from: gatehouse@example.com\n', ''],
    ['a key that is too short', 'key: 0123456789abcdef', 'key: short'],
    ['another pattern', 'email: admin@example.com', 'email: admin'],
    ['no duration', 'retention: 30d', 'retention: month'],
    ['two forms of a key', 'key: fedcba9876543210', 'key: fedcba9876543210\n        keyFile: a'],
    ['a member that was removed', 'path: data', 'cachePath: data'],
    [
      'several issuers beside one',
      'audience: certs',
      'audience: certs\n    issuers: [{ issuerUrl: "https://a", audience: b }]',
    ],
    ['an issuer without audience', '    audience: certs\n', ''],
    ['the short form beside the long one', '  jwt:', '  audience: certs\n  jwt:'],
    [
      'a caller with two names',
      'dns: app.example.com',
      'dns: app.example.com\n        email: a@example.com',
    ],
    ['a caller without names', '        domains: [app.example.com]\nrules', 'rules'],
    ['a rule for everyone', '    subject: robot\n', ''],
    ['a rule for people with a subject', 'subject: robot', 'subject: robot\n    people: anyone'],
    ['terms that nobody agreed to', 'agreeToTerms: true', 'agreeToTerms: false'],
    ['a client without tenant', '            tenantId: c\n', ''],
    ['a password without user', '      user: gatehouse\n', ''],
  ],
  unmarked: [
    ['an issuer that there is not', 'email: admin@example.com', 'fallback: other'],
    ['a name that is taken', 'name: web', 'name: admin'],
    ['a port that is taken', 'port: 7480', 'port: 7401'],
    ['a challenge without listener', '  plainHttp: { port: 7480 }\n', ''],
    [
      'plain HTTP on other addresses',
      '127.0.0.1\n  port: 7401\n  tls: own',
      '0.0.0.0\n  port: 7401\n  tls: off',
    ],
    ['a duration that is out of bounds', 'retention: 30d', 'retention: 1s'],
    ['no name', 'names: [app.example.com]', 'names: [app_.example.com]'],
    ['no URL', 'https://id.example.com', 'id.example.com'],
    ['two challenges of a type', '- type: http-01', '- type: http-01\n      - type: http-01'],
    ['a method that is not configured', 'auth:', 'auth:\n  method: psk'],
  ],
}

/** Configurations with one fault each. */
export const FAULTY = { 'forward-auth': FORWARD_AUTH, 'cert-service': CERT_SERVICE }

/** The configuration with a fault. */
export function withFault(sound: string, [title, there, instead]: Fault): string {
  const parts = sound.split(there)
  if (parts.length !== 2) throw new Error(`${title}: ${JSON.stringify(there)} is not there once`)
  return parts.join(instead)
}
