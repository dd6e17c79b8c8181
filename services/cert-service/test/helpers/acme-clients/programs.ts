import { join } from 'node:path'
import { type AcmeClient, made, ofSystem, runFor, runWell } from './client.ts'

interface Library {
  readonly title: string
  readonly product: string
  readonly lacks: string | false
  readonly atLimit: AcmeClient['atLimit']
  readonly program: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Whether it asks when a certificate is due. */
  readonly wakes?: boolean
  readonly keepsKey?: boolean
}

/** A library in a small program of ours, see `programs/`. */
const library = ({
  title,
  product,
  lacks,
  atLimit,
  keepsKey = false,
  ...own
}: Library): AcmeClient => ({
  ...{ title, product, lacks, atLimit, keepsKey },
  start({ directory, rootFile, kid, hmacKey }, folder) {
    const command = (action: string, name: string) => ({
      program: own.program,
      args: [...(own.args ?? []), action, name],
      folder,
      env: {
        DIRECTORY: directory,
        ROOT: rootFile,
        SSL_CERT_FILE: rootFile,
        KID: kid,
        HMAC_KEY: hmacKey,
        ...own.env,
      },
    })
    const ordering = (action: string) => (name: string) =>
      runFor(command(action, name), join(folder, `${name}.pem`))
    return {
      issue: ordering('issue'),
      renew: ordering('renew'),
      ...(own.wakes && { wake: ordering('due') }),
      revoke: (name) => runWell(command('revoke', name)),
    }
  },
})

export const lego5 = library({
  title: 'lego 5.6',
  product: 'xenolf-acme',
  ...made('lego5'),
  atLimit: 'ends',
  wakes: true,
})

export const autocert = library({
  title: 'autocert 0.59',
  product: 'autocert',
  ...made('autocert'),
  atLimit: 'waits',
})

const npm = made('acme-client')

export const acmeClient = library({
  title: 'acme-client 5.4',
  product: 'node-acme-client',
  lacks: npm.lacks,
  atLimit: 'waits',
  program: process.execPath,
  args: [join(import.meta.dirname, 'programs/acme-client.mjs')],
  env: { ACME_CLIENT: npm.program },
})

const maven = made('acme4j')

export const acme4j = library({
  title: 'acme4j 3.5',
  product: 'acme4j',
  lacks: maven.lacks || ofSystem('java'),
  atLimit: 'ends',
  program: 'java',
  // Starts in half the time.
  args: [
    ...['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'],
    ...['-cp', `${maven.program}:${maven.program}/lib/*`, 'Acme4j'],
  ],
  wakes: true,
})

export const instantAcme: AcmeClient = {
  ...library({
    title: 'instant-acme 0.8',
    product: 'instant-acme',
    ...made('instant-acme'),
    atLimit: 'ends',
  }),
  isExtra: true,
}

const playbook = made('ansible')

export const ansible = library({
  title: 'community.crypto 3.0',
  product: 'ansible',
  lacks: playbook.lacks,
  atLimit: 'waits',
  program: 'sh',
  args: [
    '-c',
    'exec "$0/bin/ansible-playbook" -e "step=$2 domain=$3" "$1"',
    playbook.program,
    join(import.meta.dirname, 'programs/ansible.yaml'),
  ],
  env: { ANSIBLE_COLLECTIONS_PATH: playbook.program },
  wakes: true,
  keepsKey: true,
})
