import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { createIntermediate, createRoot, toPem } from '@gatehouse/pki'
import { freePort } from '../../scripts/free-ports.ts'
import { commandOn } from './child.ts'

export interface StepCa {
  readonly port: number
  readonly pid: number
  /** PEM. */
  readonly ca: string
  readonly directory: string
  stop(): Promise<void>
}

/**
 * Starts step-ca as `step ca init` configures it: Badger, a log, and an ACME provisioner with http-01.
 *
 * @param provisioners - further ones
 */
export async function startStepCa(
  program: string,
  proofPort: number,
  provisioners: readonly object[] = [],
): Promise<StepCa> {
  const folder = mkdtempSync(join(tmpdir(), 'step-ca-'))
  const port = await freePort()
  const ca = await writeStepCa(folder, port, provisioners)
  const [command, ...pinned] = commandOn(0, program)
  const options = ['--insecure', `--acme-http-port=${proofPort}`, join(folder, 'ca.json')]
  const args = [...pinned, ...options]
  // Its log is written, and goes nowhere.
  const child = spawn(command, args, {
    stdio: 'ignore',
    env: { HOME: folder, STEPPATH: folder },
  })
  const exited = once(child, 'exit')
  const kill = () => child.kill()
  process.once('exit', kill)
  await untilAnswers(port)
  return {
    port,
    pid: child.pid!,
    ca,
    directory: '/acme/acme/directory',
    async stop() {
      kill()
      await exited
      process.off('exit', kill)
      rmSync(folder, { recursive: true })
    },
  }
}

async function writeStepCa(
  folder: string,
  port: number,
  provisioners: readonly object[],
): Promise<string> {
  const acme = { type: 'ACME', name: 'acme', challenges: ['http-01'] }
  const now = Date.now()
  const root = await createRoot({ commonName: 'Bench root', now })
  const issuer = await createIntermediate({ root, commonName: 'Bench issuer', now })
  const ca = toPem('CERTIFICATE', root.certificate)
  const files = {
    'root.pem': ca,
    'issuer.pem': toPem('CERTIFICATE', issuer.certificate),
    'issuer.key': String(issuer.key?.export({ type: 'pkcs8', format: 'pem' })),
    'ca.json': JSON.stringify({
      root: join(folder, 'root.pem'),
      crt: join(folder, 'issuer.pem'),
      key: join(folder, 'issuer.key'),
      address: `127.0.0.1:${port}`,
      dnsNames: ['127.0.0.1'],
      logger: { format: 'text' },
      db: { type: 'badgerv2', dataSource: join(folder, 'db') },
      authority: { provisioners: [acme, ...provisioners] },
    }),
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return ca
}

export async function untilAnswers(port: number): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' })
  try {
    await once(socket, 'connect')
  } catch {
    await setTimeout(100)
    await untilAnswers(port)
  } finally {
    socket.destroy()
  }
}
