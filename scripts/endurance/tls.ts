import {
  type Authority,
  buildChainPem,
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  parseName,
  toPem,
} from '@gatehouse/pki'

const DAY = 86_400_000

/** A CA for the servers of the harness itself, which moved clocks find valid as well. */
export interface ServerCa {
  readonly root: string
  certificateFor(address: string): { readonly cert: string; readonly key: string }
}

export async function createServerCa(): Promise<ServerCa> {
  const now = Date.now() - DAY
  const root = await createRoot({ commonName: 'Endurance run', now })
  const authority = await createIntermediate({ root, commonName: 'Endurance run R1', now })
  return {
    root: toPem('CERTIFICATE', root.certificate),
    certificateFor: (address) => issue(authority, address, now),
  }
}

function issue(authority: Authority, address: string, now: number) {
  const key = generateP256()
  const leaf = createLeafSigner(authority).sign({
    spki: key.spki,
    keyType: key.type,
    names: [parseName(address)],
    serial: createSerial(now),
    notBefore: now,
    notAfter: now + 10 * DAY,
  })
  return {
    cert: buildChainPem(leaf, authority.chain),
    key: toPem('PRIVATE KEY', key.pkcs8),
  }
}
