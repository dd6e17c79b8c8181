/** Cryptography alone, all in one process: `{ side, ms }` is answered with calls per second of CPU time. */
import {
  createECDH,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  verify,
} from 'node:crypto'
import {
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  parseName,
  toPem,
} from '@gatehouse/pki'
import { callsPerCpuSecond } from '../harness/cpu.ts'

const DAY = 86_400_000
const now = Date.now()
const root = await createRoot({ commonName: 'Bench root', now })
const authority = await createIntermediate({ root, commonName: 'Bench issuer', now })
const signer = createLeafSigner(authority)
const names = [parseName('app.example.com')]

function signLeaf(spki: Uint8Array): Buffer {
  return signer.sign({
    spki,
    keyType: 'p256',
    names,
    notBefore: now,
    notAfter: now + 7 * DAY,
    serial: createSerial(Date.now()),
  })
}

const { spki } = generateP256()
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const toBeSigned = randomBytes(400)
const signBytes = () => sign('sha256', toBeSigned, privateKey)
const signature = signBytes()
const publicKey = createPublicKey(privateKey)
const verifyBytes = () => verify('sha256', toBeSigned, publicKey, signature)

const sides = {
  'bare signature': signBytes,
  leaf: () => signLeaf(spki),
  // Key objects would be made faster, but then nobody can read the key that has to be handed out.
  'raw key pair and signature': () => {
    createECDH('prime256v1').generateKeys()
    signBytes()
  },
  // Three requests, a CSR and the certificate.
  'raw signatures of an order': () => {
    for (let n = 0; n < 4; n++) verifyBytes()
    signBytes()
  },
  'key pair, leaf and PEMs': () => {
    const key = generateP256()
    toPem('CERTIFICATE', signLeaf(key.spki))
    toPem('PRIVATE KEY', key.pkcs8)
  },
}
export type LeafSide = keyof typeof sides

process.on('message', ({ side, ms }: { side: LeafSide; ms: number }) => {
  process.send!(callsPerCpuSecond(sides[side], ms))
})
process.on('disconnect', () => process.exit())
process.send!('ready')
