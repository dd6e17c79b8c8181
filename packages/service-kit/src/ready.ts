import { execFile } from 'node:child_process'
import type { Logger } from 'pino'

/**
 * Logs that the service is ready. Under systemd it also ends the wait of `systemctl start` and of the units
 * that start after this one, by a program of systemd: Node has no datagram sockets of Unix.
 */
export function announceReady(
  fields: object,
  { log, env }: { readonly log: Logger; readonly env: NodeJS.ProcessEnv },
): void {
  log.info(fields, 'ready')
  const { NOTIFY_SOCKET, PATH } = env
  if (!NOTIFY_SOCKET) return
  execFile('systemd-notify', ['--ready'], { env: { NOTIFY_SOCKET, PATH } }, (error) => {
    if (error) log.warn({ err: error }, 'systemd could not be notified of readiness')
  })
}
