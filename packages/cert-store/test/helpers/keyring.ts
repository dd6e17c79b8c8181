import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { openSqliteStore } from '../../src/engines/sqlite.ts'
import { openKeyring } from '../../src/sealing/master-key.ts'

export const secret = Buffer.from('a private key')
export const context = Buffer.from('its certificate')

/** A keyring over a store in a folder, with the options that open it again. */
export async function testKeyring(t: Test) {
  const base = testFolder(t)
  const folder = join(base, 'data')
  const store = await openSqliteStore({ folder })
  t.teardown(() => store.close())
  const options = { masterKeyFile: join(base, 'keys', 'master.key'), folder, store }
  return { ...options, options, base, keyring: await openKeyring(options) }
}
