import t from 'tap'
import { generateClients, missingGenerators } from '../../../../scripts/test/api-clients.ts'
import { KEY, start } from '../helpers/app.ts'

const TYPESCRIPT = `
import { client } from './sdk/client.gen'
import { getCertificate, getRoots, issueCertificate, listCertificates, revokeCertificate } from './sdk'

const [, , baseUrl = ''] = process.argv
client.setConfig({ baseUrl, headers: { authorization: 'APIKey ${KEY}' } })
const issued = await issueCertificate({ body: { domain: 'typescript.test', keyType: 'p384' } })
const list = await listCertificates({ query: { limit: '10' } })
const first = list.data?.certificates[0]
const missing = await getCertificate({ path: { domain: 'missing.test' } })
const roots = await getRoots({ parseAs: 'text' })
const revoked = await revokeCertificate({ body: { domain: 'typescript.test', reason: 'superseded' } })
const nobody = await listCertificates({ headers: { authorization: null } })
console.log(JSON.stringify({
  issued: issued.data && 'certificate' in issued.data && issued.data.certificate.slice(0, 27),
  name: first?.domain, keyType: first?.keyType,
  missing: [missing.response?.status, missing.error?.code],
  roots: String(roots.data).slice(0, 27),
  revoked: revoked.data?.domain,
  nobody: nobody.error?.code,
}))
declare const process: { argv: string[] }
`

const PYTHON = `
import json, sys
from sdk import Client
from sdk.api.ca import get_roots
from sdk.api.certificates import get_certificate, issue_certificate, list_certificates, revoke_certificate
from sdk.models import IssueCertificateBody, RevokeCertificateBody

anybody = Client(base_url=sys.argv[1])
client = anybody.with_headers({'authorization': 'APIKey ${KEY}'})
issued = issue_certificate.sync(client=client, body=IssueCertificateBody(domain='python.test'))
first = list_certificates.sync(client=client).certificates[0]
missing = get_certificate.sync_detailed('missing.test', client=client)
revoke_body = RevokeCertificateBody(domain='python.test')
print(json.dumps({
    'issued': issued.certificate[:27],
    'name': first.domain, 'keyType': str(first.key_type),
    'missing': [missing.status_code, missing.parsed.code],
    'roots': get_roots.sync(client=client).payload.read().decode()[:27],
    'revoked': revoke_certificate.sync(client=client, body=revoke_body).domain,
    'nobody': list_certificates.sync(client=anybody).code,
}))
`

t.test('clients that are generated from the document', { skip: missingGenerators }, async (t) => {
  const { app } = await start(t)
  const clients = await generateClients(t, app)
  const answers = (name: string, keyType: string) => ({
    issued: '-----BEGIN CERTIFICATE-----',
    ...{ name, keyType },
    missing: [404, 'CERT_NOT_FOUND'],
    roots: '-----BEGIN CERTIFICATE-----',
    revoked: name,
    nobody: 'AUTH_CREDENTIALS_MISSING',
  })
  t.strictSame(await clients.typescript(TYPESCRIPT), answers('typescript.test', 'p384'))
  t.strictSame(await clients.python(PYTHON), answers('python.test', 'p256'))
})
