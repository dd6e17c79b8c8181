// For njs 0.7.9 and newer. Certificates are stored in files, so that nginx has them after a restart and
// while Gatehouse is down.
// biome-ignore lint/style/useNodejsImportProtocol: njs supports only this name.
import fs from 'fs'

const API = 'http://127.0.0.1:7480/api/certificate'

/** Fetches every certificate. Called by a request or by js_periodic. */
async function refresh(session) {
  const names = session.variables.gatehouse_names.split(' ')
  const failed = []
  for (let i = 0; i < names.length; i++) {
    try {
      await fetchOne(names[i], session.variables)
    } catch (error) {
      ngx.log(ngx.ERR, `no new certificate for ${names[i]}: ${error.message}`)
      failed.push(names[i])
    }
  }
  if (session.return) session.return(failed.length > 0 ? 502 : 204, failed.join('\n'))
}

async function fetchOne(name, variables) {
  const key = fs.readFileSync(variables.gatehouse_key_file).toString().trim()
  const answer = await ngx.fetch(API, {
    method: 'POST',
    headers: {
      Authorization: `APIKey ${key}`,
      'Content-Type': 'application/json',
      Accept: 'application/x-pem-file',
    },
    body: JSON.stringify({ domain: name }),
  })
  const pem = await answer.text()
  if (answer.status !== 200) throw new Error(`status ${answer.status}`)
  const file = fileOf(name, variables)
  const draft = `${file}.${process.pid}`
  fs.writeFileSync(draft, pem, { mode: 0o600 })
  fs.renameSync(draft, file)
}

/** The certificate and key for a handshake. An empty value makes the handshake fail. */
function pem(r) {
  const asked = (r.variables.ssl_server_name || '').toLowerCase()
  const names = r.variables.gatehouse_names.split(' ')
  const name = [asked, asked.replace(/^[^.]+/, '*')].find((one) => names.includes(one))
  try {
    return name ? fs.readFileSync(fileOf(name, r.variables)).toString() : ''
  } catch (error) {
    r.error(`no certificate for ${name}: ${error.message}`)
    return ''
  }
}

function fileOf(name, variables) {
  return `${variables.gatehouse_folder}/${name.replace('*', '_')}.pem`
}

export default { refresh, pem }
