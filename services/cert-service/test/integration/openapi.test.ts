import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { holdToDocument, missingSchemathesis } from '../../../../scripts/test/schemathesis.ts'
import { KEY, start } from '../helpers/app.ts'

expectWarnings(t, 'CERT_', 'AUTH_', 'HTTP_')

for (const key of [KEY, 'no-key-of-anybody'])
  t.test(`asked with ${key}`, { skip: missingSchemathesis }, async (t) => {
    const { app } = await start(t)
    await holdToDocument(t, app, { authorization: `APIKey ${key}` })
  })
