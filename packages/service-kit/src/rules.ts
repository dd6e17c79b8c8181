export {
  checkCertificateFile,
  checkFolder,
  checkText,
  checkTlsFiles,
  checkTokenFile,
} from './config/files.ts'
export {
  applyRules,
  applyToEach,
  type ConfigRule,
  checkListeners,
  checkNetwork,
  checkTrustedProxies,
  checkUnique,
  comparableKeys,
  type Fault,
  faultIf,
  faultOf,
  ifKnown,
  isWhole,
  type Listener,
} from './config/rules.ts'
