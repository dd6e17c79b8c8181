export { createAcmeAlpnCertificate } from './acme-alpn.ts'
export {
  type Authority,
  clampValidity,
  createIntermediate,
  createRoot,
} from './authority.ts'
export { type CertificateInfo, createSerial, parseCertificate } from './certificate.ts'
export { createCrl, REVOCATION_REASONS, type Revocation, type RevocationReason } from './crl.ts'
export { type CertificateRequest, parseCsr, readKnownCsr } from './csr.ts'
export { buildCsr } from './csr-build.ts'
export { PKI_ERRORS, PkiError, type PkiErrorCode } from './errors.ts'
export {
  generateKeyPair,
  generateP256,
  KEY_TYPES,
  type KeyPair,
  type KeyType,
  keyPairFromPem,
} from './keys.ts'
export { createLeafSigner, type Leaf, type LeafSigner } from './leaf.ts'
export { loadAuthority } from './load-authority.ts'
export { carriesConstraints } from './name-constraints.ts'
export {
  compileReach,
  compileRules,
  matchesRule,
  type NameRule,
  parseNameRule,
} from './name-rules.ts'
export { type Name, parseName } from './names.ts'
export { notGranted } from './not-granted.ts'
export { buildChainPem, fromPem, type PemLabel, toPem } from './pem.ts'
