// make-secrets.mjs FILE…: creates the secrets that do not exist yet.
import { createSecret } from './secrets.mjs'

for (const file of process.argv.slice(2)) createSecret(file)
