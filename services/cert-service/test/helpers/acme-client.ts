import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { buildCsr, fromPem, generateP256, type KeyPair, parseName } from '@gatehouse/pki'
import type { FastifyInstance } from 'fastify'
import {
  bindExternalAccount,
  publicJwk,
  signRequest,
} from '../../../../packages/acme/src/protocol/jws.ts'

export interface AcmeAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever came.
  readonly body: any
}

export interface ExternalKey {
  readonly kid: string
  readonly hmacKey: string
}

export const newKey = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey

export const HOST = 'certs.example'

/** An ACME client that says exactly what a test says, over `inject`. */
export class AcmeClient {
  readonly app: FastifyInstance
  readonly agent: string
  readonly ip: string | undefined
  key: KeyObject
  url = ''
  directory: Record<string, string> = {}

  constructor(
    app: FastifyInstance,
    {
      key = newKey(),
      agent = 'test-client/1.0 (x)',
      ip,
    }: { key?: KeyObject; agent?: string; ip?: string } = {},
  ) {
    this.app = app
    this.key = key
    this.agent = agent
    this.ip = ip
  }

  async get(url: string, method: 'GET' | 'HEAD' = 'GET'): Promise<AcmeAnswer> {
    return this.#send(method, url)
  }

  async nonce(): Promise<string> {
    return String((await this.get(this.at('/acme/new-nonce'), 'HEAD')).headers['replay-nonce'])
  }

  at(path: string): string {
    return `http://${HOST}${path}`
  }

  /** A signed request; without a payload, a POST-as-GET. @param by - the account, or the key that identifies itself */
  async post(
    url: string,
    payload?: object,
    {
      by = 'account',
      nonce,
      key = this.key,
    }: { by?: 'account' | 'key'; nonce?: string; key?: KeyObject } = {},
  ): Promise<AcmeAnswer> {
    const signer = { key, ...(by === 'account' && { accountUrl: this.url }) }
    const jws = signRequest(signer, { url, nonce: nonce ?? (await this.nonce()) }, payload)
    return this.send(url, jws)
  }

  send(url: string, body: object | string, type = 'application/jose+json'): Promise<AcmeAnswer> {
    return this.#send('POST', url, typeof body === 'string' ? body : JSON.stringify(body), type)
  }

  async register(external?: ExternalKey, members: object = {}): Promise<AcmeAnswer> {
    const url = this.at('/acme/new-account')
    const bound = external && {
      externalAccountBinding: bindExternalAccount(external, this.key, url),
    }
    const answer = await this.post(url, { ...bound, ...members }, { by: 'key' })
    if (answer.status < 300) this.url = String(answer.headers.location)
    return answer
  }

  order(names: readonly string[], members: object = {}): Promise<AcmeAnswer> {
    const identifiers = names.map((value) => ({
      type: parseName(value).kind === 'ip' ? 'ip' : 'dns',
      value,
    }))
    return this.post(this.at('/acme/new-order'), { identifiers, ...members })
  }

  finalize(order: AcmeAnswer, names: readonly string[], key: KeyPair = generateP256()) {
    const csr = buildCsr(key, names.map(parseName)).toString('base64url')
    return this.post(order.body.finalize, { csr })
  }

  /** The chain, DER, of a new order. */
  async obtain(names: readonly string[], members: object = {}, key?: KeyPair): Promise<Buffer[]> {
    const finalized = await this.finalize(await this.order(names, members), names, key)
    if (finalized.body?.status !== 'valid') throw new Error(finalized.text)
    return fromPem((await this.post(finalized.body.certificate)).text, 'CERTIFICATE')
  }

  get jwk() {
    return publicJwk(this.key)
  }

  async #send(method: 'GET' | 'HEAD' | 'POST', url: string, payload?: string, type?: string) {
    const { pathname, search } = new URL(url)
    const response = await this.app.inject({
      method,
      url: pathname + search,
      headers: { host: HOST, 'user-agent': this.agent, ...(type && { 'content-type': type }) },
      ...(this.ip && { remoteAddress: this.ip }),
      ...(payload !== undefined && { payload }),
    })
    const isJson = String(response.headers['content-type']).includes('json')
    return {
      status: response.statusCode,
      headers: response.headers,
      text: response.payload,
      body: isJson && response.payload ? response.json() : undefined,
    }
  }
}
