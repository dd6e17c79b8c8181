import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { ENDS } from '../helpers/ca-ends.ts'

const run = promisify(execFile)
/** Days between those that are tried, beside each day on which the chain changed. */
const EVERY = 30

for (const [what, walk] of Object.entries(ENDS))
  t.test(`OpenSSL verifies the chains of the last two years: ${what}`, async (t) => {
    const folder = testFolder(t)
    const { root, seen } = await walk(t)
    const write = (name: string, ...certificates: { toString(): string }[]) => {
      writeFileSync(join(folder, name), certificates.join(''))
      return name
    }
    const anchor = write('root.pem', root)
    const tried = seen.filter(
      ({ chain }, day) =>
        day % EVERY === 0 ||
        day >= seen.length - 8 ||
        chain[0]?.fingerprint !== seen[day - 1]?.chain[0]?.fingerprint,
    )
    for (const { at, leaf, chain } of tried) {
      const files = ['-untrusted', write('chain.pem', ...chain), write('leaf.pem', leaf)]
      // At the time of issue, and until the end of the leaf.
      for (const time of [at, leaf.validToDate.getTime() - 1_000]) {
        const attime = ['-attime', String(Math.floor(time / 1000))]
        const args = ['-x509_strict', '-purpose', 'sslserver', '-CAfile', anchor, ...files]
        const { stdout } = await run('openssl', ['verify', ...attime, ...args], { cwd: folder })
        t.match(stdout, /: OK/, new Date(time).toISOString())
      }
    }
    t.ok(tried.length >= 32)
  })
