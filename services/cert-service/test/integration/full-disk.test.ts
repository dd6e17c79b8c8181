import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import {
  checkIntegrity,
  connect,
  storeFile,
} from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import { createHome, startService } from '../helpers/service.ts'

expectWarnings(t, 'STORE_UNAVAILABLE')

interface Degraded {
  readonly degraded: readonly string[]
}

const skip = process.getuid?.() === 0 ? false : 'only root may mount a small disk'

t.test(
  'a full disk: nothing new, no damage, and service as before once it has room',
  { skip },
  async (t) => {
    const disk = mkdtempSync(join(tmpdir(), 'gatehouse-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk])
    t.teardown(() => {
      execFileSync('umount', ['--lazy', disk])
      rmdirSync(disk)
    })
    const home = createHome(disk)
    const service = await startService(t, home)
    const held = new Map<string, string>()
    const obtain = async (domain: string) => {
      const answer = await service.obtain(domain)
      if (answer.status === 200) held.set(domain, answer.body.certificate)
      return answer
    }
    await obtain('first.example')

    const ballast = join(disk, 'ballast')
    const { bavail, bsize } = statfsSync(disk)
    writeFileSync(ballast, Buffer.alloc(bavail * bsize - 200_000))
    const degraded = async () => {
      const { degraded } = (await (await fetch(`${service.url}/readyz`)).json()) as Degraded
      return degraded.join()
    }
    t.equal(await degraded(), '')
    let refused = 0
    for (let i = 0; i < 100 && refused < 3; i++) {
      const answer = await obtain(`n${i}.example`)
      if (answer.status === 200) continue
      refused++
      t.match(answer, { status: 503, retryAfter: '5', body: { code: 'STORE_UNAVAILABLE' } })
    }
    t.equal(refused, 3, 'the disk was full')
    t.equal(await degraded(), 'store')
    t.match((await obtain('first.example')).body, { cached: true }, 'what is held is answered')

    rmSync(ballast)
    t.equal((await obtain('after.example')).status, 200)
    await until(async () => (await degraded()) === '')
    for (const [domain, certificate] of held) {
      t.match((await obtain(domain)).body, { certificate, cached: true }, domain)
    }
    await service.stop()
    const sqlite = connect(storeFile(home.folder))
    t.doesNotThrow(() => checkIntegrity(sqlite))
    sqlite.close()
  },
)
