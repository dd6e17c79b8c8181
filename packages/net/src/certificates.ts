import { X509Certificate } from 'node:crypto'

const BEGINNING = /(?=-----BEGIN (?:X509 )?CERTIFICATE-----)/

/**
 * Requires that a text has certificates in PEM and nothing broken among them: TLS in Node takes those before the first
 * broken one, and says nothing of the rest.
 * @throws Error with what the text holds instead
 */
export function requireCertificates(pem: string): void {
  const blocks = pem.split(BEGINNING).filter((block) => BEGINNING.test(block))
  if (blocks.length === 0) throw new Error('holds no PEM certificate')
  for (const [index, block] of blocks.entries())
    try {
      new X509Certificate(block)
    } catch (cause) {
      throw new Error(`holds a broken certificate, ${index + 1} of ${blocks.length}`, { cause })
    }
}
