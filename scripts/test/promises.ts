/** What a sentence is that promises nothing: it says what to do, or what something is or means. */
type NoPromise = 'advice' | 'definition'

/** How a sentence begins, and the tests that hold it, as `file: name`. */
export type Said = readonly [begins: string, ...(readonly [NoPromise] | readonly string[])]

const CERT = 'services/cert-service/test'
const FWA = 'services/forward-auth/test'
const OAUTH = 'services/forward-auth/test/oauth'
const CORE = 'packages/auth-core/test'
const KIT = 'packages/service-kit/test'
const PKI = 'packages/pki/test'
const POSTGRES = 'packages/store/test/postgres'
const CERT_STORE = 'packages/cert-store/test'
const SCRIPTS = 'scripts/test'

const THROUGH_PROXIES = `${FWA}/integration/proxies.test.ts: each attack is tried through every proxy, or where it belongs`
const LIST_OF_PROXIES = `${SCRIPTS}/proxies.test.ts: the one list has the names of the code`
const NEEDS_LITTLE = `${SCRIPTS}/compose.test.ts: every container has as little as it needs`
const SEALED = `${CERT}/secrets.test.ts: what is stored of a key is sealed`
const TOLD_DEFAULTS = `${SCRIPTS}/figures.test.ts: defaults that the guides tell are those of the reference`
const TRUSTED = `packages/service-kit/test/http/trust.test.ts: trusts only listed proxies and verified client certificates`
const HOP = `${FWA}/session/hop.test.ts`
const TICKET = `${HOP}: a ticket from an access log is nothing in the browser of who reads it`
const ONE_HOST = `${FWA}/session/sessions.test.ts: a cookie is valid only at its own host, portal and domain`
const ONE_KIND = `${FWA}/session/sessions.test.ts: tokens of one kind do not pass for the other, whichever was seen first`
const SEALED_ROW = `${FWA}/session/session.test.ts: a row opens as what it was sealed for`
const BY_HAND = `${FWA}/session/records.test.ts: a row that somebody wrote by hand is no session`
const BY_WRITER = [
  'no column that a writer of the store changes gives time or rights',
  'a session that nobody uses ends, whatever the store says of its use',
  'an older row of a living session counts no more',
].map((name) => `${FWA}/session/store-writer.test.ts: ${name}`)
const READ_AGAIN =
  'packages/identity-providers/test/oidc.test.ts: people are read again with their refresh token'
const LOGOUT_TOKENS =
  'packages/identity-providers/test/logout-token.test.ts: logout tokens that are refused'
const ADVICE = 'advice'
const DEFINITION = 'definition'

const DOCKER = `${FWA}/docker/app.test.ts`
const GREEDY = `${DOCKER}: label sets that want more get nothing but the host of their service`
const UNFIT = `${DOCKER}: a label that cannot be followed gives no host, and says why`
const ANY_LABELS = `${DOCKER}: whatever the labels are, a route is one free host below the domain, at the address of its container`
const OF_IMAGE = `${DOCKER}: what the image has does not count`
const FOLLOWED = `${DOCKER}: what labels may say`
const ONE_APP = `${DOCKER}: one host is one app`
const READER = `${FWA}/docker/reader.test.ts`
const THROUGH_TRAEFIK = `${FWA}/integration/docker-reader.test.ts: labels through a real Traefik`

/**
 * Each sentence, item and row of the documents that promise something about security, in their order: of a whole file, or of
 * the part below a heading.
 */
export const PROMISES: Readonly<Record<string, readonly Said[]>> = {
  'SECURITY.md': [
    ['Please report vulnerabilities', ADVICE],
    ['You get an answer within', ADVICE],
    ['cert-service holds the keys', DEFINITION],
    ['It promises:', DEFINITION],
    [
      'Without a valid key, token or client certificate',
      `${CERT}/mtls/mtls.test.ts: a connection with a certificate is a caller`,
      `${CERT}/errors.test.ts: the document says where the service is, and who may call what`,
      `${CORE}/refusals.test.ts: refused credentials`,
    ],
    [
      'Its pages also accept',
      `${CERT}/visitors/routes.test.ts: a key opens a session, signing out ends it`,
      `${CERT}/visitors/visitors.test.ts: without an assertion the page asks for a key, and a wrong one is refused`,
    ],
    [
      'A caller gets a certificate only',
      `${CERT}/policy/access.test.ts: all names must be allowed on every route to a certificate`,
      `${CERT}/policy/access.test.ts: property: no request gets a name that its caller may not have`,
    ],
    [
      'A kill of the process loses',
      `${CERT}/e2e/kill.test.ts: killed at any moment, nothing that was handed out is lost`,
      `packages/issuance/test/issuance.test.ts: an order outlives the process`,
    ],
    [
      'A failover loses none',
      `${SCRIPTS}/integration/endurance.test.ts: \${MINUTES} minutes of kills, failovers and partitions break no promise`,
    ],
    [
      'A valid certificate is never withheld',
      `${CERT}/resilience.test.ts: a valid certificate is served while its CA fails`,
      `${CERT}/integration/kill.test.ts: killed \${kills} times with clocks that move, nothing is lost, withheld or revived`,
    ],
    [
      'None is taken out of service',
      `packages/issuance/test/callers.test.ts: beyond the limit of a name, no other certificate is issued, and none makes room`,
      `${CERT}/issuance/fleet.test.ts: at the limit the next machine is refused, and the others keep what they have`,
    ],
    [
      'A secret never reaches a log',
      `${CERT}/secrets.test.ts: no secret reaches the log, an error, a metric, the audit trail or a page`,
    ],
    [
      'The store contains no private key',
      SEALED,
      `${CERT}/resilience.test.ts: no private key is stored unsealed, and none is reused for a renewal`,
      `${CERT_STORE}/sealing/master-key.test.ts: a master key inside the data folder is refused, by any name`,
    ],
    [
      'Memory and time stay bounded',
      `${CERT}/audit.test.ts: a million deliveries take few rows and little memory`,
      `${FWA}/security/memory.test.ts: memory stays bounded whatever is requested`,
      `${FWA}/security/work.test.ts: a check takes linear work, whatever it is filled with`,
      `${SCRIPTS}/linear.test.ts: twice the input is twice the work for every reader`,
    ],
    [
      'So does disk usage',
      `packages/issuance/test/callers.test.ts: the names of a caller are limited, also after a restart`,
      `packages/issuance/test/callers.test.ts: operators have limits of their own`,
    ],
    ['The operator, and root', DEFINITION],
    [
      'Configuration, secret files',
      `${KIT}/config/load.test.ts: loadConfig refuses`,
      `${CERT}/cli/start-rules.test.ts: a named file that cannot be used is a fault of its key`,
    ],
    [
      'The holder of an API key',
      `${CERT}/policy/access.test.ts: keys revoke and delete only with these rights`,
      `${CERT}/config/reload.test.ts: a valid reload applies completely, and a removed key is refused`,
    ],
    [
      'The holder of the key of a caller',
      `${CERT}/mtls/mtls.test.ts: a connection with a certificate is a caller`,
      `${CERT}/mtls/mtls.test.ts: what a session resumes is judged again`,
      `${CERT}/mtls/mtls.test.ts: a reload replaces the callers`,
      `${CERT}/mtls/mtls.test.ts: callers with certificates have their rights, limits and routes`,
      `${CERT}/policy/certificate-callers.test.ts: a client certificate that makes a caller is for operators and that caller`,
    ],
    [
      'A proxy in `server.trustedProxies`, with `auth.mtls.header`',
      `${CERT}/mtls/mtls.test.ts: a proxy tells the certificate of its client`,
      `${CERT}/mtls/mtls.test.ts: of a trusted proxy, the header counts and not its own certificate`,
    ],
    [
      'The holder of a wildcard',
      `${CERT}/policy/access.test.ts: a wildcard that covers a denied name is refused on every route`,
    ],
    [
      'The issuer of a token',
      `${CORE}/refusals.test.ts: refused credentials`,
      `${CORE}/jwt/verify.test.ts: two issuers with the same subject, key id and audience`,
    ],
    [
      'A caller | nothing',
      `${CERT}/routes/bad-input.test.ts: bad input is refused with its own answer, and nothing is written`,
      `packages/issuance/test/callers.test.ts: the rate of new certificates is limited`,
    ],
    ['The data folder or the database', SEALED],
    [
      'A proxy in `server.trustedProxies` | name',
      `${KIT}/http/trusted-proxies.test.ts: only trusted proxies set the address of a client`,
      `${KIT}/http/trusted-proxies.test.ts: only trusted proxies set host and protocol`,
    ],
    [
      'The network',
      `${CERT}/config/load.test.ts: plain HTTP is for loopback, or has to be called insecure`,
    ],
    ['What an attacker gains', DEFINITION],
    [
      '**a copy of the data folder',
      `${CERT}/resilience.test.ts: no private key is stored unsealed, and none is reused for a renewal`,
    ],
    [
      'Keys are sealed with AES-256-GCM',
      `${CERT_STORE}/sealing/keyring.test.ts: a data key cannot take the place of another`,
      `${CERT_STORE}/sealing/master-key.test.ts: a master key inside the data folder is refused, by any name`,
    ],
    ['**data folder or database, and', DEFINITION],
    ['Store them on separate volumes.', ADVICE],
    ['Move the root key offline', ADVICE],
    [
      'Then only the intermediate can be abused',
      `${CERT}/cli/detach-root.test.ts: the key of the root moves into a file, and the store keeps none`,
      `${PKI}/authority.test.ts: an intermediate`,
      `${PKI}/authority.test.ts: name constraints`,
    ],
    [
      '**one API key**',
      `${CERT}/config/reload.test.ts: a valid reload applies completely, and a removed key is refused`,
    ],
    ['Give each caller its own key', ADVICE],
    [`**a caller's token**`, `${CORE}/refusals.test.ts: refused credentials`],
    ['**the memory of the running process**', DEFINITION],
    ['**the password of the', DEFINITION],
    ['Somebody who can write to it', DEFINITION],
    ['The keys stay sealed.', SEALED],
    ['Gatehouse does not defend', DEFINITION],
    ['forward-auth decides', 'packages/gate/test/decide.test.ts: decisions'],
    [
      'It promises that no check',
      `${FWA}/check/no-session.test.ts: invariant: no valid session, no 2xx`,
      `${FWA}/check/programs.test.ts: nothing but a valid credential makes a program`,
      'packages/gate/test/rules.test.ts: what may fit opens nothing, and demands all that it may demand',
      `${FWA}/check/check.test.ts: preflights`,
      `${FWA}/sign-in/login.test.ts: 500 interleaved logins do not mix up people`,
      `${FWA}/check/programs.test.ts: no person passes for a program`,
    ],
    [
      'A proxy in `server.trustedProxies`, or with',
      `${FWA}/check/check.test.ts: refuses checks from peers that are not trusted proxies`,
    ],
    [
      'An identity provider',
      `${FWA}/sign-in/callback.test.ts: a provider that sends a victim on to another one never gets the code`,
      'packages/identity-providers/test/open-id-connect.test.ts: ID tokens that are refused',
      'packages/gate/test/headers.test.ts: the same subject at two providers is two users',
    ],
    [
      'A browser',
      `${FWA}/sign-in/login.test.ts: only the modules that validate a target write a redirect`,
      `${FWA}/sign-in/login.test.ts: a callback is accepted once, and only in the browser that began the login`,
      `${FWA}/account/logout.test.ts: after signing out the old cookie counts nowhere, nor after a restart`,
    ],
    ['An app behind the proxy', THROUGH_PROXIES],
    [
      'A client that acts for a person',
      `${OAUTH}/agents.test.ts: what ends the session ends its agents`,
      `${OAUTH}/attacks.test.ts: access token leakage at a resource server (4.9): a token is for one resource`,
      `${OAUTH}/attacks.test.ts: authorization code replay: the second use ends what the first has brought`,
      `${OAUTH}/attacks.test.ts: refresh token replay (4.14)`,
    ],
    [
      'Another host of the domain',
      `${HOP}: cookie tossing: no cookie that was not set for this browser binds a hop`,
      `${HOP}: all lost to a sibling that sets 180 cookies: costs one hop more`,
      `${FWA}/web/cookies.test.ts: Set-Cookie`,
    ],
    [
      'A session is a row of the store',
      `${FWA}/store/sessions.test.ts: a session begins, changes and is found`,
      `${FWA}/web/cookies.test.ts: the names of two portals and of the two hosts are never the same`,
    ],
    ['The cookie of an app counts', ONE_HOST, ONE_KIND],
    [
      'A session reaches the host',
      `${HOP}: no ticket is left in a target, wherever it stood`,
      `${HOP}: brings the session to the app, and the same ask twice gets the same answer`,
    ],
    [
      'The ticket is valid for 30 seconds',
      `${HOP}: a ticket is for one host, portal and half a minute`,
    ],
    [
      'Whoever tries it elsewhere',
      TICKET,
      `${FWA}/session/records.test.ts: a burnt ticket is refused at every instance`,
    ],
    [
      'It is made only in the browser',
      `${FWA}/check/hops.test.ts: who begins a hop and has another person finish it becomes nobody`,
      `${HOP}: a hop counts in the browser that shows its sign-in binding`,
    ],
    ['No app gets the session', THROUGH_PROXIES],
    [
      'If `assertion.hosts` names',
      `${FWA}/session/assertion.test.ts: an assertion says who sends a request, to one app, for a minute`,
      `${FWA}/session/assertion.test.ts: only the apps whose hosts are named get an assertion`,
    ],
    [
      'It is neither a session',
      `${FWA}/session/assertion.test.ts: no replay of an assertion is a session`,
      `${CERT}/visitors/visitors.test.ts: an assertion is no access token`,
    ],
    [
      'A session that has ended stays ended',
      `${FWA}/store/sessions.test.ts: nothing revives a session that has ended`,
      `${FWA}/session/records.test.ts: nothing that was under way revives a session that has ended`,
      `${FWA}/store/sessions.test.ts: in any order, a session that has ended is never found again`,
      `${FWA}/account/logout.test.ts: after signing out the old cookie counts nowhere, nor after a restart`,
    ],
    [
      'If a store falls back',
      `${FWA}/store/postgres.test.ts: in a database that went back, what had ended ends again`,
      `${FWA}/store/sqlite.test.ts: in a file that was restored, what had ended ends again`,
      `${FWA}/session/records.test.ts: a store that has ended sessions again ends them again`,
    ],
    [
      'What the provider says of a person',
      READ_AGAIN,
      'packages/identity-providers/test/oidc.test.ts: a person whose token is revoked, or who is gone, is read no more',
    ],
    [
      'If the provider cannot be asked',
      'packages/identity-providers/test/oidc.test.ts: what an answer means for the session',
    ],
    [
      'A provider that gives no refresh',
      `${FWA}/session/re-reading.test.ts: a session whose provider has no token for it is not asked about again`,
    ],
    [
      'A logout token of a provider ends',
      LOGOUT_TOKENS,
      `${FWA}/account/back-channel.test.ts: the end of a session at the provider ends it in all portals of the client`,
      `${FWA}/account/back-channel.test.ts: what began after the logout token stays`,
    ],
    ['One that breaks a rule', LOGOUT_TOKENS],
    [
      'Claims and tokens of the provider are sealed',
      SEALED_ROW,
      `${FWA}/store/postgres.test.ts: nobody who reads the database learns a secret`,
    ],
    ['Somebody who can write to the store', SEALED_ROW, BY_HAND],
    [
      'A logout at one instance',
      `${FWA}/store/sessions.test.ts: every instance learns what happens at any of them`,
    ],
    [
      '[Replicas](docs/replicas.md) on one database',
      `${POSTGRES}/feed.test.ts: a row is known to the others at once`,
      `${POSTGRES}/feed.test.ts: without a notification, the poll finds it`,
    ],
    [
      'A replica that is cut off',
      `${FWA}/session/replicas.test.ts: while the database is away`,
      `${FWA}/config/storage.test.ts: a database in place of a folder, and its defaults`,
    ],
    [
      'A token of an agent counts',
      `${OAUTH}/attacks.test.ts: access token leakage at a resource server (4.9): a token is for one resource`,
      `${OAUTH}/agents.test.ts: a call that needs another scope says which`,
      `${OAUTH}/agents.test.ts: what ends the session ends its agents`,
    ],
    [
      'What a client says of itself',
      `${FWA}/integration/agents.test.ts: an agent that knows only the URL signs in`,
      `${OAUTH}/client-documents.test.ts: a hostile document or host is refused, and nothing reaches loopback`,
      `${OAUTH}/client-documents.test.ts: a public fetch goes to public addresses and to the private networks`,
    ],
    [
      'forward-auth refuses a request',
      'packages/gate/test/forwarded.test.ts: refuses a URI that is not in origin form',
      `${FWA}/check/check.test.ts: a restriction that cannot be evaluated denies`,
      `${FWA}/security/faults.test.ts: nobody passes while a dependency of the check is broken`,
      `${FWA}/check/programs.test.ts: an issuer that cannot be reached denies, for now`,
    ],
    [
      'People who are signed in stay',
      'examples/quickstart/test/integration/front-door.test.ts: without the provider nobody signs in, and who is in stays in',
    ],
    ['Gatehouse decides, and the proxy acts.', DEFINITION],
    ['The [examples](examples/proxies) do all of this', THROUGH_PROXIES, LIST_OF_PROXIES],
    ['Your own proxy configuration has to', ADVICE],
    ['let a request pass only if', ADVICE],
    ['pass on `Upgrade` only', ADVICE],
    ['set or remove every identity header', ADVICE],
    ['show the check', ADVICE],
    ['ask with the host', ADVICE],
    [
      '[Threats and tests](docs/threats.md)',
      `${SCRIPTS}/threats.test.ts: every test that docs/threats.md names exists`,
    ],
    ['For forward-auth, set', ADVICE],
    ['Give every public provider', ADVICE],
    ['Share `session.keys`', ADVICE],
    ['Listen on loopback', TOLD_DEFAULTS],
    ['Give callers keys', ADVICE],
    ['Prefer `keySha256`', ADVICE],
    ['Set `ca.permitted`', ADVICE],
    [
      'Clients then refuse other names',
      `${PKI}/integration/constraints.test.ts: OpenSSL accepts what is within the constraints, and nothing else`,
    ],
    [
      'The container images run',
      NEEDS_LITTLE,
      `${SCRIPTS}/compose.test.ts: the images run without root`,
    ],
    ['Back up with', ADVICE],
    ['Keep the master key file', ADVICE],
    ['[Security](docs/security.md)', DEFINITION],
  ],

  'docs/security.md': [
    ['[SECURITY.md](../SECURITY.md)', DEFINITION],
    [
      '[Threats and tests](threats.md)',
      `${SCRIPTS}/threats.test.ts: every test that docs/threats.md names exists`,
    ],
    ['This page says', DEFINITION],
    ['Gatehouse relies on', DEFINITION],
    ['**Only the proxy', DEFINITION],
    ['Bind them to loopback', ADVICE],
    ['Anybody who reaches an app', DEFINITION],
    [
      'An app that verifies the',
      `${CORE}/require-person.test.ts: what is refused`,
      `${CORE}/require-person.test.ts: request.person is set behind the guard only`,
    ],
    ['**The proxy passes on', DEFINITION],
    ['The configurations in these guides', THROUGH_PROXIES],
    ['The tests try each of its lines', THROUGH_PROXIES, LIST_OF_PROXIES],
    ['**Nobody else is', DEFINITION],
    ['List addresses or', ADVICE],
    [
      'Whoever controls the DNS',
      `packages/service-kit/test/http/trust.test.ts: a name stands for the addresses that it has now`,
    ],
    ['Set `allow` on each', ADVICE],
    [
      'Those where anybody can get an account',
      'packages/identity-providers/test/config.test.ts: knows which providers are open to anybody',
      `${FWA}/config/rules.test.ts: reports faults of portals`,
    ],
    ['Give restricted routes', ADVICE],
    ['Policies belong in', ADVICE],
    ['Give the sign-in pages', ADVICE],
    ['Keep `session.lifetime`', TOLD_DEFAULTS],
    ['Leave `refresh` of the portals', READ_AGAIN],
    ['Register the [back-channel', ADVICE],
    ['Where the portal [issues tokens', ADVICE],
    ['Store client secrets', ADVICE],
    ['With `storage.url`', ADVICE],
    ['Check the proxy against', ADVICE],
    ['Upgrades to anything but', DEFINITION],
    ['Give each caller its own key', ADVICE],
    ['Do not share keys', ADVICE],
    ['Use `keySha256`', ADVICE],
    ['For tokens, set', ADVICE],
    ['Set `ca.permitted`', ADVICE],
    [`Keep the root's key`, ADVICE],
    ['Store master key and data', ADVICE],
    ['On [PostgreSQL]', ADVICE],
    ['Listen on loopback', ADVICE],
    ['Behind a proxy, set', ADVICE],
    ['If the proxy passes [client certificates]', ADVICE],
    [
      'The audit trail and the log then',
      `${CERT}/inventory/routes.test.ts: the audit trail and the log have the address of the client`,
    ],
    [
      'By default, only a proxy',
      `${KIT}/http/trusted-proxies.test.ts: only trusted proxies set the address of a client`,
    ],
    ['Run them as an unprivileged user', NEEDS_LITTLE],
    ['Ship the logs', ADVICE],
    ['If callers are hostile', ADVICE],
    [
      'Each host has [a cookie of its own]',
      `${FWA}/web/cookies.test.ts: the names of two portals and of the two hosts are never the same`,
    ],
    ['This is what somebody can do', DEFINITION],
    [
      'the cookie of an app, such as',
      ONE_HOST,
      ONE_KIND,
      `${FWA}/session/sessions.test.ts: the token of an app says who is there to nobody but us`,
      `${FWA}/session/sessions.test.ts: accepts only session tokens as sessions`,
    ],
    ['the cookie of the sign-in host', ADVICE],
    ['a ticket from a log', TICKET],
    [
      'an access token of an agent',
      `${OAUTH}/attacks.test.ts: access token leakage at a resource server (4.9): a token is for one resource`,
      `${OAUTH}/agents.test.ts: an agent is nobody’s session`,
      `${FWA}/integration/agents.test.ts: tokens are renewed without the person`,
    ],
    ['a refresh token of an agent', `${OAUTH}/attacks.test.ts: refresh token replay (4.14)`],
    [
      'the link to a sign-in page',
      `${HOP}: a ticket from an access log is nothing in the browser of who reads it`,
      `${FWA}/sign-in/logins.test.ts: a login cannot be finished in another browser`,
    ],
    ['Every other host of the domain', DEFINITION],
    [
      'It can read and set the cookie',
      `${FWA}/check/hops.test.ts: a sibling that tosses sign-in bindings gets nothing, and Ada still arrives`,
    ],
    [
      'What it sets counts',
      `${HOP}: nobody learns one end of a hop from the other, nor either from the link`,
    ],
    [
      'It can have a person who is signed in',
      `${FWA}/check/hops.test.ts: images fetch a cookie for our pages only`,
    ],
    [
      'It can neither read nor set',
      `${FWA}/web/cookies.test.ts: Set-Cookie`,
      `${HOP}: cookie tossing: no cookie that was not set for this browser binds a hop`,
      `${FWA}/sign-in/logins.test.ts: a cookie of another host counts for no login`,
    ],
    ['It can have a browser clear', DEFINITION],
    [
      'This costs a person a redirect',
      `${HOP}: all lost to a sibling that sets 180 cookies: costs one hop more`,
      `${HOP}: 180 cookies: few are cleared at once, and the hop ends well`,
    ],
    ['No server can prevent', DEFINITION],
    ['**Staging below production.**', DEFINITION],
    ['A portal for `example.com`', `${FWA}/web/cookies.test.ts: Set-Cookie`],
    ['All of this holds', DEFINITION],
    ['With `scope: domain`, every host', DEFINITION],
    ['[Sessions](cookies.md#one-cookie-for-a-domain)', DEFINITION],
    ['**The store.**', DEFINITION],
    [
      'Claims, tokens and the browser',
      SEALED_ROW,
      `${FWA}/store/postgres.test.ts: nobody who reads the database learns a secret`,
    ],
    ['Somebody who can write to the database can end', SEALED_ROW, BY_HAND, ...BY_WRITER],
    ['They could put back a row', DEFINITION],
    ['So after you restore', ADVICE],
    [
      'A person may sign in 60 times',
      `${FWA}/sign-in/sign-in-rate.test.ts: a person may sign in 60 times at once, then once every 5 seconds`,
      `${FWA}/sign-in/loops.test.ts: one account cannot fill the store of sessions`,
    ],
    ['Each replica counts', `${FWA}/sign-in/sign-in-rate.test.ts: each instance counts on its own`],
    ['Docker gives a container the labels', DEFINITION],
    ['In [the homelab](homelab.md#what', FOLLOWED],
    ['They take no host of Gatehouse', GREEDY, UNFIT, ANY_LABELS, THROUGH_TRAEFIK],
    ['Labels of the image do not', OF_IMAGE],
    [
      'Of all containers there',
      `${SCRIPTS}/compose.test.ts: a homelab: one service has the socket of Docker, and two others ask it`,
    ],
    [
      'It tells Traefik and forward-auth hosts and addresses',
      `${READER}: it asks Docker for two things, bounded, and tells hosts and addresses`,
    ],
    ['Where Traefik or caddy-docker-proxy', DEFINITION],
    ['Use client certificates', ADVICE],
    ['A client with a certificate', TRUSTED],
    ['If `trustedProxies` is empty', TRUSTED],
    [
      'The [private CA](embedded-ca.md#client',
      `${PKI}/issuing-to-clients.test.ts: a client certificate and its authority are for clients alone`,
    ],
    [
      'Request one for each proxy',
      `${SCRIPTS}/integration/docs.test.ts: commands for a running cert-service, then for a stopped one`,
    ],
    ['Each client certificate of', TRUSTED],
    ['If others have some', ADVICE],
    ['Add `--watch`', ADVICE],
    ['Configure the proxy', ADVICE],
    ['For nginx, set', ADVICE],
    ['For Caddy, add', ADVICE],
    [
      'cert-service can issue',
      `${KIT}/tls.test.ts: watchFiles reports each change of its files once`,
    ],
    [
      'an API key leaked',
      `${CERT}/acme-server/caller-changes.test.ts: story 8: a key leaked, and its value is replaced`,
      `${CERT}/config/reload.test.ts: a valid reload applies completely, and a removed key is refused`,
    ],
    [
      'a leaf key leaked',
      `${CERT}/routes/certificate.test.ts: a key that was revoked as compromised is never certified again`,
    ],
    ['the data folder, the database', SEALED],
    ['data folder or database, and master key', ADVICE],
    [
      'the key of the root leaked',
      `${CERT}/routes/roll.test.ts: a compromised root is left at once, without a cross certificate`,
    ],
    [
      'a dump of the database of forward-auth',
      `${FWA}/store/postgres.test.ts: nobody who reads the database learns a secret`,
    ],
    ['the URL of the database', SEALED],
    [
      'the session key leaked',
      `${FWA}/session/sessions.test.ts: removing a portal, provider or key from the configuration ends its sessions`,
    ],
    [
      'the client secret leaked',
      `${KIT}/reload.test.ts: watches the secret files of the new configuration after a reload`,
    ],
    [
      'you have to lock a person out',
      `${FWA}/check/check.test.ts: a reload takes access away at once`,
    ],
    [
      'an agent misbehaves',
      `${FWA}/integration/agents.test.ts: what the person ends is refused at once, at all instances`,
      `${OAUTH}/agents.test.ts: administrators see all agents`,
    ],
    [
      'a provider is down',
      'examples/quickstart/test/integration/front-door.test.ts: without the provider nobody signs in, and who is in stays in',
    ],
  ],
  'docs/homelab.md: What labels can say': [
    ['Labels say which host and which port', FOLLOWED, ANY_LABELS],
    [
      '`docker-reader` reads them',
      `${SCRIPTS}/compose.test.ts: a homelab: an app needs no label for its login, and has none that takes it away`,
    ],
    ['`traefik.enable=true` |', FOLLOWED],
    ['`traefik.http.services.notes.loadbalancer.server.port', FOLLOWED],
    ['`traefik.http.services.notes.loadbalancer.server.scheme', FOLLOWED],
    ['`traefik.http.routers.notes.rule', FOLLOWED, UNFIT],
    ['Other labels of Traefik are ignored', GREEDY],
    ['If one of these four', UNFIT],
    ['Either way, `docker-reader` logs', GREEDY, UNFIT],
    ['**The hosts of Gatehouse**', UNFIT],
    ['A router in `docker/homelab/routes.yaml`', THROUGH_TRAEFIK],
    ['**A host has one app.**', ONE_APP],
    ['The app that has it', `${READER}: a host stays with the app that had it`],
    ['If two apps want', ONE_APP],
    ['**Labels of the image do not count**', OF_IMAGE],
    ['A label that you and the image', OF_IMAGE],
    ['**Containers of one service**', ONE_APP, THROUGH_TRAEFIK],
    ['Those that are stopped', `${DOCKER}: where an app is`],
    [
      '**While Docker does not answer**',
      `${READER}: while Docker does not answer, apps keep their routes for 30 seconds`,
    ],
    [
      'Then they have none',
      `${READER}: while Docker does not answer, apps keep their routes for 30 seconds`,
    ],
    ['While `docker-reader` itself does not run', THROUGH_TRAEFIK],
  ],
}
