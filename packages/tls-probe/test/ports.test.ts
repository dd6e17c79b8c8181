import t from 'tap'
import { parsePort } from '../src/ports.ts'

t.test('a port has the protocol that is named, else its usual one', (t) => {
  const table: readonly [text: string, port: number, protocol: string][] = [
    [':443', 443, 'tls'],
    [':25', 25, 'smtp'],
    [':587', 587, 'smtp'],
    [':24', 24, 'lmtp'],
    [':143', 143, 'imap'],
    [':110', 110, 'pop3'],
    [':5432', 5432, 'postgres'],
    [':3306', 3306, 'mysql'],
    [':465', 465, 'tls'],
    [':993', 993, 'tls'],
    [':1', 1, 'tls'],
    [':65535', 65_535, 'tls'],
    [':25 smtp', 25, 'smtp'],
    [':25 tls', 25, 'tls'],
    [':2525 smtp', 2525, 'smtp'],
    [':15432 postgres', 15_432, 'postgres'],
  ]
  for (const [text, port, protocol] of table)
    t.strictSame(parsePort(text), { port, protocol }, text)
  t.end()
})

t.test('everything else is refused', (t) => {
  for (const text of [
    '',
    ':',
    '443',
    ':0',
    ':0443',
    ':65536',
    ':123456',
    ':-1',
    ':443 ',
    ' :443',
    ':443  tls',
    ':443\ttls',
    ':443 TLS',
    ':443 http',
    ':443 tls smtp',
    ':443 constructor',
    'a.test:443',
    ':443\n',
  ])
    t.equal(parsePort(text), undefined, JSON.stringify(text))
  t.end()
})
