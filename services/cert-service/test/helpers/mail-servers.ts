// Debian's packages postfix, and dovecot-imapd, -pop3d and -lmtpd. It takes root.
import { execFile, spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'

const run = promisify(execFile)

/** The ports of Dovecot by its listeners. */
export const DOVECOT_PORTS = { imap: 143, imaps: 993, pop3: 110, pop3s: 995, lmtp: 24 }

export function userId(name: string): number {
  return Number(spawnSync('id', ['-u', name], { encoding: 'utf8' }).stdout)
}

/** Runs Postfix at ports 25, 587 and 465 of an address, with `mail.log`. Gives what runs another command of it. */
export async function startPostfix(
  t: Test,
  folder: string,
  { address, hostname, certificate }: { address: string; hostname: string; certificate: string },
): Promise<(command: string) => Promise<unknown>> {
  const file = (name: string) => join(folder, name)
  for (const name of ['postfix', 'queue', 'data']) mkdirSync(file(name))
  chownSync(file('data'), userId('postfix'), 0)
  writeFileSync(
    file('postfix/main.cf'),
    `compatibility_level = 3.6
queue_directory = ${file('queue')}
data_directory = ${file('data')}
maillog_file = ${file('mail.log')}
maillog_file_prefixes = ${folder}
myhostname = ${hostname}
mydestination =
alias_maps =
alias_database =
local_recipient_maps =
smtpd_tls_chain_files = ${certificate}
smtpd_tls_security_level = may
`,
  )
  writeFileSync(
    file('postfix/master.cf'),
    `${address}:25 inet n - n - - smtpd
${address}:587 inet n - n - - smtpd -o smtpd_tls_security_level=encrypt
${address}:465 inet n - n - - smtpd -o smtpd_tls_wrappermode=yes
cleanup unix n - n - 0 cleanup
rewrite unix - - n - - trivial-rewrite
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
anvil unix - - n - 1 anvil
`,
  )
  const postfix = (command: string) => run('postfix', ['-c', file('postfix'), command])
  await postfix('start')
  t.teardown(() => postfix('stop'))
  return postfix
}

/** Runs Dovecot at {@link DOVECOT_PORTS} of an address, with `mail.log`. Gives what runs another command of it. */
export async function startDovecot(
  t: Test,
  folder: string,
  { address, certificate, key }: { address: string; certificate: string; key: string },
): Promise<(command: string) => Promise<unknown>> {
  const file = (name: string) => join(folder, name)
  const listener = (name: keyof typeof DOVECOT_PORTS, tls = '') =>
    `  inet_listener ${name} {\n    address = ${address}\n    port = ${DOVECOT_PORTS[name]}\n${tls}  }\n`
  const tls = '    ssl = yes\n'
  writeFileSync(
    file('dovecot.conf'),
    `base_dir = ${file('run')}
log_path = ${file('mail.log')}
protocols = imap pop3 lmtp
ssl_cert = <${certificate}
ssl_key = <${key}
mail_location = maildir:${file('mail')}
passdb {
  driver = static
  args = nopassword=y
}
service imap-login {
${listener('imap')}${listener('imaps', tls)}}
service pop3-login {
${listener('pop3')}${listener('pop3s', tls)}}
service lmtp {
${listener('lmtp')}}
`,
  )
  // What stays must not keep the output open.
  const dovecot = (command = '') =>
    run('sh', ['-c', `dovecot -c ${file('dovecot.conf')} ${command} >&- 2>&-`])
  await dovecot()
  t.teardown(() => dovecot('stop'))
  return dovecot
}
