// Creates the secrets of compose.replicas.yml that do not exist yet, and the SQL with the users of the database.
import { readFileSync } from 'node:fs'
import { createSecret, randomSecret } from '../secrets.mjs'

const STATE = '/var/lib/gatehouse'

for (const file of [
  'keys/api.key',
  'proxy/api.key',
  'login/client.secret',
  'session/session.key',
  'database/postgres.password',
])
  createSecret(`${STATE}/${file}`)
createSecret(`${STATE}/keys/master.key`, randomSecret('base64'))

/** A user who owns the schema of one service, and may do nothing else in the database. */
function userOf(name, folder) {
  const file = `${STATE}/${folder}/database.url`
  createSecret(file, `postgres://${name}:${randomSecret()}@database/gatehouse?sslmode=disable`)
  const { password } = new URL(readFileSync(file, 'utf8').trim())
  return `CREATE ROLE ${name} LOGIN PASSWORD '${password}'; CREATE SCHEMA ${name} AUTHORIZATION ${name};`
}

createSecret(
  `${STATE}/database/users.sql`,
  [
    'REVOKE ALL ON DATABASE gatehouse FROM PUBLIC;',
    userOf('gatehouse_certs', 'keys'),
    userOf('gatehouse_auth', 'session'),
    'GRANT CONNECT ON DATABASE gatehouse TO gatehouse_certs, gatehouse_auth;',
  ].join('\n'),
)
