import { join } from 'node:path'
import t from 'tap'
import { readNamedFile } from '../../src/config/files.ts'

t.test('a file that is named has a limited size', async (t) => {
  const file = join(t.testdir({ file: 'x'.repeat(10) }), 'file')
  t.match(readNamedFile(file, 10), { text: 'x'.repeat(10) })
  t.match(readNamedFile(file, 9), { fault: 'names a file of 10 bytes, with a limit of 9' })
})
