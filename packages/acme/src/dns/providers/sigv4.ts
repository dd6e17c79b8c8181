// AWS Signature Version 4, for requests whose path needs no percent-encoding.
import { createHmac, hash } from 'node:crypto'

export interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
}

export interface AwsRequest {
  readonly method: string
  readonly url: URL
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/**
 * Gives the headers of the request and its signature. `host` is signed, but not among them.
 *
 * @param now - epoch milliseconds
 */
export function signAws(
  { method, url, headers = {}, body = '' }: AwsRequest,
  scope: { readonly region: string; readonly service: string },
  credentials: AwsCredentials,
  now: number,
): Record<string, string> {
  const timestamp = new Date(now).toISOString().replace(/[-:]|\.\d{3}/g, '')
  const date = timestamp.slice(0, 8)
  const sent: Record<string, string> = {
    ...headers,
    'x-amz-date': timestamp,
    ...(credentials.sessionToken && { 'x-amz-security-token': credentials.sessionToken }),
  }
  const signed = Object.entries({ ...sent, host: url.host }).sort(byCodeUnits)
  const names = signed.map(([name]) => name).join(';')
  const canonical = [
    method,
    url.pathname,
    canonicalQuery(url.searchParams),
    ...signed.map(([name, value]) => `${name}:${value.trim().replace(/ +/g, ' ')}`),
    '',
    names,
    hash('sha256', body),
  ].join('\n')
  const scopeText = `${date}/${scope.region}/${scope.service}/aws4_request`
  const toSign = ['AWS4-HMAC-SHA256', timestamp, scopeText, hash('sha256', canonical)].join('\n')

  let key: string | Buffer = `AWS4${credentials.secretAccessKey}`
  for (const part of scopeText.split('/')) key = hmac(key, part)
  const signature = hmac(key, toSign).toString('hex')
  const credential = `Credential=${credentials.accessKeyId}/${scopeText}`
  return {
    ...sent,
    authorization: `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${names}, Signature=${signature}`,
  }
}

const hmac = (key: string | Buffer, text: string): Buffer =>
  createHmac('sha256', key).update(text).digest()

function canonicalQuery(parameters: URLSearchParams): string {
  const pairs = [...parameters].map(([name, value]): [string, string] => [
    encode(name),
    encode(value),
  ])
  return pairs
    .sort(byCodeUnits)
    .map((pair) => pair.join('='))
    .join('&')
}

/** Percent-encodes all but the unreserved characters of RFC 3986. */
function encode(text: string): string {
  const percent = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`
  return encodeURIComponent(text).replace(/[!'()*]/g, percent)
}

const byCodeUnits = ([a, x]: [string, string], [b, y]: [string, string]): number =>
  a < b || (a === b && x < y) ? -1 : 1
