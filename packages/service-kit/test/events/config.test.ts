import t from 'tap'
import { smtpTlsOf } from '../../src/events/config.ts'

t.test('the TLS of SMTP follows the port, unless it is configured', async (t) => {
  t.equal(smtpTlsOf({ port: 465 }), 'implicit')
  t.equal(smtpTlsOf({ port: 587 }), 'starttls')
  t.equal(smtpTlsOf({ port: 25 }), 'starttls')
  t.equal(smtpTlsOf({ port: 465, tls: 'starttls' }), 'starttls')
})
