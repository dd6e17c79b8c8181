export {
  BACKDATE,
  createCross,
  createIntermediate,
  createRoot,
  isAsConfigured,
  loadAuthority,
  placeBelow,
} from './authority.ts'
export { type CertificateInfo, parseCertificate, readAcmeIdentifier } from './certificate.ts'
export { type ClientCertificate, readClientCertificate } from './client-certificate.ts'
export { readConstraints } from './constraints.ts'
export { createCrl, REVOCATION_REASONS, type Revocation, type RevocationReason } from './crl.ts'
export { buildCsr, type Csr, PROFILES, type Profile, parseCsr, readKnownCsr } from './csr.ts'
export { buildChainPem, fromPem, type KeyPurpose as Purpose, type PemLabel, toPem } from './der.ts'
export { PKI_ERRORS, PkiError, type PkiErrorCode } from './errors.ts'
export {
  generateKeyPair,
  generateP256,
  KEY_TYPES,
  type KeyPair,
  type KeyType,
  keyPairFromPem,
} from './keys.ts'
export {
  compileReach,
  compileRules,
  type Name,
  type NameRule,
  parseClientName,
  parseName,
  parseNameRule,
} from './names.ts'
export { notGranted } from './not-granted.ts'
export { createPkcs12, createTruststore } from './pkcs12.ts'
export {
  type Authority,
  clampValidity,
  createAcmeAlpnCertificate,
  createLeafSigner,
  createSerial,
  type Leaf,
  type LeafSigner,
} from './signer.ts'
