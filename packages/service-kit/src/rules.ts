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
  checkListeners,
  checkNetwork,
  checkTrustedProxies,
  checkUnique,
  type Fault,
  faultIf,
  faultOf,
  isWhole,
  known,
  type Listener,
  type Rule,
} from './config/rules.ts'
