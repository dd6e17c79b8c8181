import { COMMON_OPTIONS, type ServiceCommand } from '@gatehouse/service-kit/program'
import type { ActionFor } from '../service.ts'

const GROUP = { group: 'As a client of a service:' } as const
const CONNECTION = {
  '--url URL': 'where cert-service is ($GATEHOUSE_URL; default https://localhost:7401)',
  '--ca FILE': 'roots to trust, in PEM ($GATEHOUSE_CA; default: those of the system)',
  '--key-file FILE': 'file with an API key ($GATEHOUSE_KEY_FILE)',
  '--token-file FILE': 'file with an access token, read for each request ($GATEHOUSE_TOKEN_FILE)',
  '--github-actions': 'ask GitHub for a token, in a job; with --audience',
  '--client-id ID': 'client credentials, with the next options ($GATEHOUSE_CLIENT_ID)',
  '--client-secret-file FILE': 'file with the secret of the client ($GATEHOUSE_CLIENT_SECRET_FILE)',
  '--token-issuer URL': 'OpenID issuer to ask for a token ($GATEHOUSE_TOKEN_ISSUER)',
  '--token-url URL': 'token endpoint, if the issuer has no discovery ($GATEHOUSE_TOKEN_URL)',
  '--scope SCOPE': 'scope to ask for ($GATEHOUSE_SCOPE)',
  '--audience AUDIENCE': 'audience to ask for ($GATEHOUSE_AUDIENCE)',
  '--resource URI': 'resource to ask for, where RFC 8707 is used ($GATEHOUSE_RESOURCE)',
}
const PROFILE = {
  '--profile PROFILE': 'server, or client for certificates of TLS clients (default server)',
}
const WAIT = { '--wait': 'wait until the order is done' }
const ISSUER = { '--issuer NAME': 'certificates of this issuer; ca is the private CA' }
const ACCOUNT = { '--account ID...': 'an account of a client of ACME' }
const BEFORE = { '--before TIME': 'what was made before, such as 2027-01-31 or 2027-01-31T09:30' }
const KEY_TYPE = { '--key-type TYPE': 'p256, p384, rsa2048, rsa3072, rsa4096 or ed25519' }

interface QuestionSyntax extends Omit<ServiceCommand<unknown>, 'group' | 'run'> {
  readonly name:
    | ('list' | 'show' | 'renew' | 'revoke' | 'remove' | 'order')
    | ('acmeAccount' | 'acmeAccounts' | 'caRoll' | 'incidentKey')
}

/** The commands that ask the service about what their arguments name, and print the answer. */
const QUESTIONS: readonly QuestionSyntax[] = [
  {
    name: 'list',
    usage: 'list',
    summary: 'list the certificates that you may see, the newest last',
    options: {
      '--ending DURATION': 'those that end within this time or have ended, the most urgent first',
      ...ISSUER,
      '--failing':
        'list failing names instead, with or without a certificate, the most urgent first',
    },
    examples: ['gatehouse-certs list --ending 7d --issuer letsencrypt'],
  },
  {
    name: 'show',
    usage: 'show NAME...',
    summary: 'show the newest certificate of each name, and why its renewal fails',
    options: { '--pem': 'print its chain', ...PROFILE },
    examples: ['gatehouse-certs show app.example.com --pem'],
  },
  {
    name: 'renew',
    usage: 'renew [NAME...]',
    summary: 'renew certificates that are due, or as an operator all that have something in common',
    options: {
      '--now': 'try now what has failed, whether or not its next try is due',
      ...WAIT,
      '--caller CALLER': 'all certificates of this caller, due or not',
      ...ISSUER,
      '--under ID': 'all below this intermediate or root: its key identifier or SHA-256',
      ...KEY_TYPE,
      ...BEFORE,
      '--spread DURATION': 'begin with all of them within this time, such as 24h (default at once)',
      '--dry-run': 'only say what would be renewed, by whom',
      ...PROFILE,
    },
    examples: [
      'gatehouse-certs renew app.example.com --wait',
      'gatehouse-certs renew app.example.com --now',
      'gatehouse-certs renew --caller web --spread 24h --dry-run',
      'gatehouse-certs renew --issuer ca --key-type rsa2048 --spread 7d',
    ],
  },
  {
    name: 'revoke',
    usage: 'revoke [NAME...]',
    summary:
      'revoke the certificates of each name, or of an account of a client of ACME, which ends',
    options: {
      ...ACCOUNT,
      '--reason REASON': 'such as keyCompromise or superseded (default unspecified)',
      ...PROFILE,
    },
    examples: [
      'gatehouse-certs revoke app.example.com --reason keyCompromise',
      'gatehouse-certs revoke --account zAejtsqlH08RK2Dr9IZxFQ --reason privilegeWithdrawn',
    ],
  },
  {
    name: 'remove',
    usage: 'delete NAME...',
    summary: 'stop serving and renewing the certificates of each name',
    options: PROFILE,
    examples: ['gatehouse-certs delete app.example.com'],
  },
  {
    name: 'order',
    usage: 'order ID',
    summary: 'show the progress of an order',
    options: WAIT,
    examples: ['gatehouse-certs order 6b1f5c1e-7a52-4d0c-9f0e-0c6a2f0f8d11 --wait'],
  },
  {
    name: 'acmeAccount',
    usage: 'acme-account [CALLER]',
    summary: 'print the key that a caller gives to certbot, Caddy or another client of ACME',
    options: {
      '--renew': 'make a new key, and end the accounts of the old one',
      '--keep ID...': 'account that --renew does not end',
    },
    examples: ['gatehouse-certs acme-account web', 'gatehouse-certs acme-account web --renew'],
  },
  {
    name: 'acmeAccounts',
    usage: 'acme-accounts',
    summary: 'list the accounts of clients of ACME, the newest last, end some, or take some over',
    options: {
      ...ACCOUNT,
      '--end': 'end what is named',
      '--adopt CALLER':
        'take over the accounts of a caller whose API key was replaced, or those of --account alone',
    },
    examples: [
      'gatehouse-certs acme-accounts',
      'gatehouse-certs acme-accounts --account zAejtsqlH08RK2Dr9IZxFQ --end',
      'gatehouse-certs acme-accounts --adopt web --account zAejtsqlH08RK2Dr9IZxFQ',
    ],
  },
  {
    name: 'caRoll',
    usage: 'ca roll STEP',
    summary: 'replace the root of the private CA: begin, status, use, back, finish or cancel',
    options: {
      '--root FILE': 'begin with this root instead of a new one',
      '--root-key FILE': 'its private key, which is sent along and not stored',
      '--signer-key FILE': 'the private key of the old root, if it is offline; likewise',
      '--no-cross': 'begin without a cross certificate, as the key of the root is compromised',
      '--force': 'use the new root within 14 days, or use or finish although clients are cut off',
      '--forget-key': 'finish, and delete the private key of the old root',
    },
    examples: [
      'gatehouse-certs ca roll begin',
      'gatehouse-certs ca roll status',
      'gatehouse-certs ca roll begin --root new.pem --root-key new.key --signer-key old.key',
      'gatehouse-certs ca roll finish --forget-key',
    ],
  },
  {
    name: 'incidentKey',
    usage: 'incident key NAME',
    summary: 'end and revoke what an API key has got that leaked, and say who has to fetch anew',
    options: {
      '--yes': 'do it; without it, say what would be done',
      ...BEFORE,
    },
    examples: ['gatehouse-certs incident key web', 'gatehouse-certs incident key web --yes'],
  },
]

/** The commands of the client, which need no configuration of the service. */
export const clientCommands = (actionFor: ActionFor): readonly ServiceCommand<unknown>[] => [
  {
    ...GROUP,
    usage: 'get NAME...',
    summary: 'fetch a certificate into files, or into a Secret, and keep it up to date',
    options: {
      '--out DIR':
        'write DIR/NAME/privkey.pem, fullchain.pem, combined.pem and, with --ca, ca.pem (DIR/_client.NAME for a client)',
      '--secret NAMESPACE/NAME': 'keep a Secret of Kubernetes instead, from a pod',
      '--p12':
        'write bundle.p12 and, with --ca, truststore.p12 beside these files, for Java and others',
      '--p12-password-file FILE': 'file with their password, read each time',
      '--ca-out FILE': 'trust this file, begun with the roots of --ca and kept up to date',
      '--reload CMD': 'run this command when there are new files',
      '--reload-timeout DURATION': 'how long it may take (default 1m)',
      '--probe PORT...':
        "look whether this port then serves the certificate, such as :443 or ':25 smtp'; also HOST:PORT",
      '--watch': 'keep running instead of ending after one run',
      '--mode MODE': 'permissions of the files (default 600)',
      '--owner USER:GROUP': 'owner of the files',
      ...KEY_TYPE,
      '--lifetime DURATION':
        'the longest that it may live, such as 6d (default: as the service decides)',
      ...PROFILE,
      '--csr': 'create the private key here; it never leaves this machine',
      '--timeout DURATION': 'how long to wait for the service, unless --watch (default 5m)',
      ...CONNECTION,
    },
    examples: [
      "gatehouse-certs get app.example.com --out /etc/nginx/tls --reload 'systemctl reload nginx' --probe :443",
      'gatehouse-certs get app.example.com www.example.com --out /etc/tls --csr --watch',
      'gatehouse-certs get shop.example.com --secret shop/web-tls',
      'gatehouse-certs get spiffe://example.com/app --profile client --out /etc/tls --watch',
    ],
    async run({ words, options, process }) {
      const { get } = await import('./get.ts')
      await get(words, options, process, actionFor)
      return ''
    },
  },
  {
    ...GROUP,
    usage: 'probe NAME[:PORT]',
    summary: 'say which certificate is served under a name, at each of its addresses',
    options: {
      '--protocol PROTOCOL':
        'tls, smtp, lmtp, imap, pop3, postgres or mysql (default: the usual one of the port)',
      ...COMMON_OPTIONS.json,
      ...CONNECTION,
    },
    examples: [
      'gatehouse-certs probe app.example.com --ca root.pem',
      'gatehouse-certs probe mail.example.com:2525 --protocol smtp',
    ],
    async run({ words: [text = ''], options, process, progress }) {
      progress.say('waiting for the server')
      const { env, stderr } = process
      const { probeName } = await import('./probe.ts')
      return probeName(text, options, { env, stderr, actionFor }, process)
    },
  },
  ...QUESTIONS.map(
    ({ name, options, ...syntax }): ServiceCommand<unknown> => ({
      ...GROUP,
      ...syntax,
      options: { ...options, ...COMMON_OPTIONS.json, ...CONNECTION },
      async run({ words, options, process, progress }) {
        const { env, stderr } = process
        progress.say('waiting for cert-service')
        const questions = {
          ...(await import('./certificates.ts')),
          ...(await import('./acme-accounts.ts')),
          ...(await import('./ca-roll.ts')),
          ...(await import('./incident.ts')),
        }
        const fail = () => void Object.assign(process, { exitCode: 1 })
        return questions[name](words, options, { env, stderr, actionFor, fail })
      },
    }),
  ),
  {
    ...GROUP,
    usage: 'acme-check URL',
    summary: 'say what a client of ACME would meet at a directory, of any CA',
    options: {
      '--ca FILE': 'roots to trust, in PEM (default: those of the system)',
      '--kid KID': 'ID of a key: make an account, agree to the terms, and end the account',
      '--hmac-file FILE': 'file with that key',
      '--name NAME...': 'place an order for this name by such an account; it is not finalized',
      ...COMMON_OPTIONS.json,
    },
    examples: [
      'gatehouse-certs acme-check https://certs.example.com:7401/acme/directory --ca root.pem',
      'gatehouse-certs acme-check URL --kid web-1 --hmac-file web.hmac --name app.example.com',
    ],
    async run({ words: [url = ''], options, process, progress }) {
      progress.say('waiting for the CA')
      const { acmeCheck } = await import('./acme-check.ts')
      return acmeCheck(url, options, process)
    },
  },
]
