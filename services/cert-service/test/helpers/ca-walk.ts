import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Authority, generateP256, parseName, toPem } from '@gatehouse/pki'
import type { Test } from 'tap'
import { DAY, type Running } from './app.ts'

/** PEM files of an authority, named in a configuration. `above` follows its own certificate. */
export async function writeAuthority(
  folder: string,
  name: string,
  { chain, key }: Authority,
  ...above: Uint8Array[]
) {
  const files = { certFile: join(folder, `${name}.pem`), keyFile: join(folder, `${name}.key`) }
  const pem = [...chain, ...above].map((der) => toPem('CERTIFICATE', der)).join('')
  await writeFile(files.certFile, pem)
  await writeFile(files.keyFile, key!.export({ format: 'pem', type: 'pkcs8' }))
  return files
}

const KEY = generateP256()
const LEAF = { names: [parseName('a.test')], keyType: 'p256', spki: KEY.spki } as const

/** A leaf issued on one day of a walk, and what is above it. */
export interface Seen {
  readonly at: number
  readonly leaf: X509Certificate
  readonly chain: readonly X509Certificate[]
}

/** What changed on a day: the number of authorities, the issuer of leaves, what is degraded. */
export type Change = readonly [day: number, stored: number, issuer: string, degraded: string]

/**
 * Goes through the days until nothing is issued any more. Each day the CA has three turns of upkeep,
 * and the chain of a new leaf is checked up to the root.
 */
export async function walk(t: Test, running: Running, root: X509Certificate, days: number) {
  const { service, clock } = running
  const changes: Change[] = []
  const seen: Seen[] = []
  for (let day = 0; day < days; day += 1) {
    for (const ms of [0, 30_000, 30_000]) {
      clock.shift(ms)
      await service.ca.upkeep()
    }
    const { certificate, chain: above, notAfter } = service.ca.issue(LEAF)
    const leaf = new X509Certificate(certificate)
    const chain = above.map((der) => new X509Certificate(der))
    const problem = problemOf([leaf, ...chain, root], clock.now())
    if (problem) t.fail(`day ${day}: ${problem}`)
    if (notAfter !== leaf.validToDate.getTime()) t.fail(`day ${day}: two ends`)
    const stored = (await service.store.listAuthorities()).length
    const issuer = chain.map(({ fingerprint }) => fingerprint).join()
    const last = changes.at(-1)
    const degraded = service.ca.degraded().join()
    if (last?.[1] !== stored || last[2] !== issuer || last[3] !== degraded)
      changes.push([day, stored, issuer, degraded])
    seen.push({ at: clock.now(), leaf, chain })
    clock.shift(DAY - 60_000)
  }
  return { changes, seen }
}

/** What is wrong with a chain that ends with its root. */
function problemOf(all: readonly X509Certificate[], now: number): string | undefined {
  for (const [i, one] of all.entries()) {
    const issuer = all[i + 1] ?? one
    if (one.validFromDate.getTime() > now || one.validToDate.getTime() <= now)
      return `${one.subject} is not valid`
    if (!one.checkIssued(issuer) || !one.verify(issuer.publicKey))
      return `${one.subject} is not signed by ${issuer.subject}`
    if (one.validToDate > issuer.validToDate) return `${one.subject} outlives ${issuer.subject}`
  }
  return undefined
}
