import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { freePort } from '../../../../scripts/free-ports.ts'
import { PROVIDERS, type Provider, startAgents } from '../helpers/agents.ts'
import { ALLOW } from '../helpers/mcp-2.ts'
import {
  runConformance,
  startEverything,
  startTokenSender,
  type Verdict,
} from '../helpers/mcp-conformance.ts'

const ISSUER = 'https://auth.example.com/portals/main'
const NOTES = 'https://app.example.com/mcp'
const RULES = [{ hosts: ['app.example.com'], tools: ['*'], require: 'reads' }]

async function start(t: Test, changes: Parameters<typeof startAgents>[3] = {}) {
  const provider = (await PROVIDERS['oidc-provider']?.(t)) as Provider
  const started = await startAgents(t, 'nginx', provider, changes)
  const caFile = join(started.folder, 'ca.pem')
  writeFileSync(caFile, started.certificate.rootPem)
  return { ...started, proxy: { port: started.port, caFile } }
}

t.test('Gatehouse is an authorization server as MCP wants it', async (t) => {
  const { browser, document, folder, proxy } = await start(t)
  const port = await freePort()
  const person = async (url: string) => browser.press(await browser.open(url), ALLOW)
  const args = ['--url', ISSUER, '--client-id', document.id, '--resource', NOTES]
  const { code, lines, errors, verdicts } = await runConformance(
    ['authorization', ...args, '--port', String(port)],
    {
      folder,
      proxy,
      // It waits for somebody who opens the URL that it prints.
      onLine: (line) => line.startsWith(`${ISSUER}/authorize`) && person(line),
    },
  )
  t.equal(code, 0, `${lines.join('\n')}\n${errors}`)
  t.strictSame(verdicts, [
    { scenario: 'authorization-server-metadata-endpoint', passed: 2, failed: 0 },
    { scenario: 'authorization-code-grant', passed: 1, failed: 0 },
  ])
})

const sumOf = (verdicts: readonly Verdict[]) => ({
  passed: verdicts.reduce((sum, { passed }) => sum + passed, 0),
  failed: verdicts.reduce((sum, { failed }) => sum + failed, 0),
})

t.test('a server passes as many scenarios through the gate as without it', async (t) => {
  const server = await startEverything(t)
  const { agent, port, certificate, folder } = await start(t, {
    portal: { rules: RULES },
    appPort: server.port,
  })
  await agent.connect(NOTES)
  const token = agent.tokens()?.access_token ?? ''
  const url = await startTokenSender(t, { port, ca: certificate.rootPem, token })
  for (const revision of ['2025-11-25', '2026-07-28'])
    await t.test(revision, async (t) => {
      const run = async (origin: string) => {
        const args = ['server', '--url', `${origin}/mcp`, '--requirements', revision]
        return (await runConformance(args, { folder })).verdicts
      }
      const without = await run(`http://127.0.0.1:${server.port}`)
      const through = await run(url)
      t.comment({ without: sumOf(without), through: sumOf(through) })
      t.ok(sumOf(without).passed > 50)
      // The proxy serves no host that it does not know, which the server alone would.
      const better = { scenario: 'dns-rebinding-protection', passed: 2, failed: 0 }
      const expected = without.map((one) => (one.scenario === better.scenario ? better : one))
      t.strictSame(through, expected)
    })
})
