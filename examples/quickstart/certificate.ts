import { rename, writeFile } from 'node:fs/promises'
import type { BoundedFetch } from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit/clock'

const HOUR_MS = 3_600_000

interface Wish {
  /** Origin of cert-service. */
  readonly url: string
  readonly apiKey: string
  readonly domain: string
  /** Takes the chain and the key. */
  readonly file: string
}

interface Deps {
  /** Trusts the CA of cert-service. */
  readonly fetch: BoundedFetch
  readonly clock: Clock
  readonly log: { error(fields: object, message: string): void }
}

/**
 * Requests a certificate from cert-service as any client does, and again every hour: cert-service returns a
 * new one when it is due.
 *
 * @throws NetError if the first request fails
 */
export async function keepCertificate(wish: Wish, { fetch, clock, log }: Deps): Promise<void> {
  const { url, apiKey, domain, file } = wish

  async function obtain(): Promise<void> {
    const { body } = await fetch(`${url}/api/certificate`, {
      method: 'POST',
      headers: {
        authorization: `APIKey ${apiKey}`,
        'content-type': 'application/json',
        accept: 'application/x-pem-file',
      },
      body: JSON.stringify({ domain }),
    })
    await writeFile(`${file}.new`, body, { mode: 0o600 })
    await rename(`${file}.new`, file)
  }

  function renewLater(): void {
    clock.setTimer(() => {
      obtain()
        .catch((error) => log.error({ err: error, domain }, 'certificate not renewed'))
        .finally(renewLater)
    }, HOUR_MS)
  }
  await obtain()
  renewLater()
}
