import { rename, writeFile } from 'node:fs/promises'
import type { BoundedFetch } from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit'

const HOUR_MS = 3_600_000

interface Wish {
  /** Of cert-service. */
  readonly url: string
  readonly apiKey: string
  readonly domain: string
  /** Where chain and key go. */
  readonly file: string
}

interface Deps {
  /** Trusts the CA of cert-service. */
  readonly fetch: BoundedFetch
  readonly clock: Clock
  readonly log: { error(fields: object, message: string): void }
}

/**
 * Gets a certificate from cert-service as any client does, and asks again each hour: the answer is
 * another one as soon as it is time for that.
 *
 * @throws NetError when there is no first one
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
