import { X509Certificate } from 'node:crypto'
import { createIntermediate, createRoot } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { memoryStore } from '../../../../packages/cert-store/test/helpers/memory-store.ts'
import { DAY, NOW, type Running, start } from './app.ts'
import { type Change, type Seen, walk, writeAuthority } from './ca-walk.ts'

/** Two years: until the end of a root. */
const DAYS = 730
const openStore = async () => memoryStore()
const lifetimeMs = DAYS * DAY
const rootOf = ({ service }: Running) => new X509Certificate(service.ca.root()!)

interface Ended {
  readonly running: Running
  readonly root: X509Certificate
  readonly changes: readonly Change[]
  readonly seen: readonly Seen[]
}

async function walkWith(t: Test, ca: object, folder = testFolder(t)): Promise<Ended> {
  const running = await start(t, { ca }, { folder, openStore })
  return { running, root: rootOf(running), ...(await walk(t, running, rootOf(running), DAYS)) }
}

/** The last two years of a CA, for each way to have one. */
export const ENDS = {
  async 'made here'(t: Test, ca: object = {}): Promise<Ended> {
    const running = await start(t, { ca }, { openStore })
    running.clock.shift((3650 - DAYS) * DAY)
    return { running, root: rootOf(running), ...(await walk(t, running, rootOf(running), DAYS)) }
  },
  async 'made here, with leaves of 180 days'(t: Test): Promise<Ended> {
    return ENDS['made here'](t, { leafLifetime: '180d' })
  },
  async 'a root that was brought'(t: Test): Promise<Ended> {
    const folder = testFolder(t)
    const mine = await createRoot({ commonName: 'Mine', now: NOW, lifetimeMs })
    return walkWith(t, { root: await writeAuthority(folder, 'root', mine) }, folder)
  },
  async 'an intermediate that was brought, with its root'(t: Test): Promise<Ended> {
    const folder = testFolder(t)
    const root = await createRoot({ commonName: 'Mine', now: NOW, lifetimeMs })
    const ours = await createIntermediate({ root, commonName: 'Ours', now: NOW, lifetimeMs })
    const files = await writeAuthority(folder, 'intermediate', ours, root.certificate)
    return walkWith(t, { intermediate: files }, folder)
  },
}
