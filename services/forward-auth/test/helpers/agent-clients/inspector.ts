import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { freePort } from '../process.ts'
import { type AgentClient, BY_TOOL, environmentOf, follow, made } from './client.ts'

const folder = 'node_modules/@modelcontextprotocol/inspector'
const { file, lacks } = made(`${folder}/clients/launcher/build/index.js`)

/** Each call is a run of its command, which finds in its home what the one before it was given. */
export const inspector: AgentClient = {
  title: 'MCP Inspector 2.12',
  lacks,
  isExtra: true,
  hasDocument: true,
  scopes: BY_TOOL,
  scopesByBody: BY_TOOL,
  async start(t, surroundings) {
    const { url, document, visit } = surroundings
    const env = {
      ...(await environmentOf(t, surroundings)),
      // Where there is no terminal, it asks nobody without this.
      MCP_AUTO_OPEN_ENABLED: 'true',
      MCP_INSPECTOR_SECRET_STORE: 'file',
      MCP_OAUTH_CALLBACK_URL: `http://127.0.0.1:${await freePort()}/callback`,
    }
    // Without its document it also registers itself, but then asks for no scope more.
    const about = ['--client-metadata-url', `${document}`, '--protocol-era', 'auto']
    return {
      async call(name) {
        const what = ['--format', 'json', '--method', 'tools/call', '--tool-name', name]
        const child = spawn(process.execPath, [file, '--cli', url, ...about, ...what], {
          env,
          stdio: ['pipe', 'pipe', 'pipe'],
        })
        const ended = once(child, 'close')
        const said = follow(child.stderr, /navigate to: (\S+)\n/g, visit)
        let answer = ''
        child.stdout.on('data', (chunk) => (answer += chunk))
        // It asks whether to ask for another scope.
        child.stdin.end('y\n')
        await ended
        if (answer === '') throw new Error(said())
        return JSON.parse(answer).result.content[0].text
      },
    }
  },
}
