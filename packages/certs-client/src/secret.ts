import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type BoundedFetch,
  type FetchAnswer,
  type FetchInit,
  parseJson,
  toTime,
} from '@gatehouse/net'
import { printable } from '@gatehouse/service-kit/program'
import { type Static, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { type Placed, readPair, timeOf } from './certificate.ts'
import { type CompanionOptions, companionFiles, hasCompanions } from './companions.ts'
import { readSecret } from './credentials.ts'
import { ClientError, type ErrorHints } from './errors.ts'
import type { StoragePlace } from './place.ts'

/** The folder in which a pod finds its service account, and the root of the API server. */
export const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
const FIELD_MANAGER = 'gatehouse-certs'
const COMPANIONS = { roots: 'ca.crt', keystore: 'keystore.p12' }
const RENEW_AT = 'gatehouse-certs/renew-at'
const STATUSES = [200, 201, 400, 401, 403, 404, 409, 415, 422, 429, 500, 503, 504]
const TRANSIENT = [409, 429, 500, 503, 504]

const SecretSchema = Type.Object({
  metadata: Type.Object({
    annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
  }),
  data: Type.Optional(Type.Record(Type.String(), Type.String())),
})

export interface SecretOptions extends CompanionOptions {
  readonly namespace: string
  readonly name: string
  /** The API server of the cluster. */
  readonly url: URL
  /** Trusts the root of the cluster. */
  readonly fetch: BoundedFetch
  /** The folder of the service account. */
  readonly account: string
  readonly log: { info(fields: object, message: string): void }
}

/** The root that the API server's certificate leads to. @throws ClientError CERT_CLIENT_SECRET_FAILED */
export function clusterRoot(account: string): string {
  try {
    return readFileSync(join(account, 'ca.crt'), 'utf8')
  } catch (cause) {
    throw failed('this is no pod with a service account token', { cause })
  }
}

/** Keeps a certificate in a Secret of type `kubernetes.io/tls` by server-side apply. */
export function openSecret(options: SecretOptions): StoragePlace {
  const { namespace, name, url, fetch, account, log } = options
  const path = `${namespace}/${name}`
  const address = new URL(`/api/v1/namespaces/${namespace}/secrets/${name}`, url)
  const call = async (query: string, init: FetchInit, expect: readonly number[]) => {
    // Read each time, since the cluster replaces it.
    const authorization = `Bearer ${readSecret({ file: join(account, 'token') })}`
    const headers = { accept: 'application/json', ...init.headers, authorization }
    const request = { ...init, headers, status: STATUSES }
    const answer = await fetch(new URL(query, address), request).catch((cause) => {
      throw failed(`the API server cannot be asked: ${cause.message}`, { cause, isTransient: true })
    })
    if (!expect.includes(answer.status)) throw refusal(path, answer)
    return answer
  }
  return {
    path: `the Secret ${path}`,
    async read() {
      const answer = await call('', {}, [200, 404])
      return answer.status === 404 ? undefined : pairIn(answer, options)
    },
    async put(pair) {
      const headers = { 'content-type': 'application/apply-patch+yaml' }
      // JSON is YAML.
      const body = JSON.stringify(manifest(pair, options))
      const query = `?fieldManager=${FIELD_MANAGER}&force=true`
      await call(query, { method: 'PATCH', headers, body }, [200, 201])
      const { names, serialNumber } = pair
      // As `secret`, it would be redacted.
      log.info({ path, names, serialNumber }, 'a new certificate is in place')
    },
    async settle() {},
  }
}

function manifest(pair: Placed, options: SecretOptions): object {
  const { namespace, name } = options
  const { fullChain, privateKey, renewAt } = pair
  const files = companionFiles(pair, COMPANIONS, options)
  const annotations = renewAt === undefined ? {} : { [RENEW_AT]: toTime(renewAt) }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, annotations },
    type: 'kubernetes.io/tls',
    data: {
      'tls.crt': toBase64(fullChain),
      'tls.key': toBase64(privateKey),
      ...Object.fromEntries(files.map(([file, content]) => [file, toBase64(content)])),
    },
  }
}

function toBase64(content: string | Buffer): string {
  return Buffer.from(content).toString('base64')
}

/** Reads what the Secret holds, if it is whole. */
function pairIn({ body }: FetchAnswer, options: CompanionOptions): Placed | undefined {
  const secret = parseJson(body)
  if (!Check(SecretSchema, secret)) return undefined
  try {
    const { data = {}, metadata } = secret as Static<typeof SecretSchema>
    const textOf = (file: string) => Buffer.from(data[file] ?? '', 'base64').toString()
    const renewAt = timeOf(metadata.annotations?.[RENEW_AT] ?? '')
    const pair = readPair(textOf('tls.crt'), textOf('tls.key'))
    const read = (file: string) => {
      const text = data[file]
      return text === undefined ? undefined : Buffer.from(text, 'base64')
    }
    if (!hasCompanions(pair, COMPANIONS, options, read)) return undefined
    return { ...pair, renewAt, isOwnKey: false }
  } catch {
    return undefined
  }
}

/** The Status that the API server answers with. */
function refusal(path: string, { status, body }: FetchAnswer): ClientError {
  // Something else than the API server may have answered.
  const { message } = Object(parseJson(body))
  const why = typeof message === 'string' ? printable(message) : `status ${status}`
  return failed(`the Secret ${path}: ${why}`, { isTransient: TRANSIENT.includes(status) })
}

function failed(why: string, hints: ErrorHints): ClientError {
  return new ClientError('CERT_CLIENT_SECRET_FAILED', why, hints)
}
