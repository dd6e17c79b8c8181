import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { freePort, startProcess } from './process.ts'

/** A real server whose app is a CGI script, which tells its environment. */
export async function startLighttpd(t: Test) {
  const [folder, port] = [testFolder(t), await freePort()]
  writeFileSync(
    join(folder, 'index.sh'),
    '#!/bin/sh\nprintf "Content-Type: text/plain\\n\\n"\nenv\n',
  )
  const file = join(folder, 'lighttpd.conf')
  const lines = [
    'server.modules = ("mod_cgi")',
    `server.document-root = "${folder}"`,
    'server.bind = "127.0.0.1"',
    `server.port = ${port}`,
    'index-file.names = ("index.sh")',
    'cgi.assign = (".sh" => "/bin/sh")',
  ]
  writeFileSync(file, `${lines.join('\n')}\n`)
  await startProcess(t, { command: 'lighttpd', args: ['-D', '-f', file], folder, port })
  return { port }
}
