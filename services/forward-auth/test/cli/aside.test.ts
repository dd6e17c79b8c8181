import os from 'node:os'
import t from 'tap'

t.test('who runs a command has a number where the machine has no name', async (t) => {
  const userInfo = () => {
    throw Object.assign(new Error('uv_os_get_passwd returned ENOENT'), { code: 'ERR_SYSTEM_ERROR' })
  }
  const mocks = { 'node:os': { ...os, userInfo } }
  const mocked = await t.mockImport<typeof import('../../src/cli/aside.ts')>(
    '../../src/cli/aside.ts',
    mocks,
  )
  t.equal(mocked.operator(), `uid ${process.getuid?.()}`)
  const { operator } = await import('../../src/cli/aside.ts')
  t.equal(operator(), os.userInfo().username)
})
