import type { Texts } from './en.ts'

export const es: Texts = {
  brand: 'Gatehouse',
  retry: 'Volver a intentarlo',
  requestId: 'Solicitud',
  details: 'Detalles:',
  contact: '¿Necesita ayuda?',
  signIn: {
    title: 'Iniciar sesión',
    text: 'Para continuar a {host}',
    choices: 'Iniciar sesión con',
    failing: 'No responde en este momento',
  },
  signedIn: {
    title: 'Ha iniciado sesión',
    back: 'Continuar a {host}',
    apps: 'Sus aplicaciones',
    noApps: 'Esta cuenta todavía no tiene acceso a ninguna aplicación aquí.',
    profile: 'Ver mi perfil',
    signOut: 'Cerrar sesión',
  },
  sessions: {
    title: 'Sus sesiones',
    here: 'Este navegador',
    device: '{browser} en {system}',
    unknown: 'Dispositivo desconocido',
    address: 'Dirección IP',
    begun: 'Inicio',
    lastSeen: 'Última actividad',
    ends: 'Caducidad',
    hosts: 'Usada en',
    end: 'Cerrar esta sesión',
    others: 'Cerrar todas las demás sesiones',
    everywhere: 'Cerrar sesión en todas partes',
    more: 'Solo se muestran las {count} sesiones más recientes.',
    all: 'Sesiones de todas las personas',
    whose: 'Dirección de correo completa o identificador de una persona',
    search: 'Buscar',
    none: 'No se ha encontrado ninguna sesión.',
    endAll: 'Cerrar todas las sesiones de esta persona',
  },
  consent: {
    title: '¿Permitir que esta aplicación actúe en su nombre?',
    app: 'Lo solicita',
    selfRegistered:
      'Una aplicación que se ha registrado a sí misma. Nadie ha confirmado quién la ha creado.',
    callsItself: 'Dice llamarse',
    answer: 'El acceso se da a',
    opens: 'La aplicación de este dispositivo que abre los enlaces {scheme}',
    resource: 'Quiere usar',
    scopes: 'Qué podrá hacer',
    loopback:
      'El acceso se da a un programa de este dispositivo, y podría solicitarlo cualquier programa que ' +
      'haya en él. Permítalo solo si usted acaba de abrir la aplicación.',
    allow: 'Permitir',
    deny: 'Denegar',
  },
  agents: {
    title: 'Agentes conectados',
    selfRegistered: 'Se ha registrado por sí mismo',
    resource: 'Puede usar',
    scopes: 'Permisos',
    begun: 'Conexión',
    lastCall: 'Última llamada',
    end: 'Desconectar',
    more: 'Solo se muestran los {count} agentes más recientes.',
  },
  signOut: {
    title: '¿Cerrar sesión?',
    text: 'Tendrá que volver a iniciar sesión en todas las aplicaciones que usan este acceso.',
    confirm: 'Cerrar sesión',
    stay: 'Seguir con la sesión abierta',
  },
  signedOut: {
    title: 'Ha cerrado la sesión',
    text: 'Puede cerrar esta página.',
    notStored:
      'Su sesión se ha eliminado de este navegador, pero el servidor no ha podido registrar que ha ' +
      'terminado. Si alguien la ha copiado, la copia puede seguir siendo válida hasta el {end}. Avise al ' +
      'administrador de este sitio.',
    provider: 'Cerrar sesión también en {provider}',
    signIn: 'Volver a iniciar sesión',
  },
  refused: {
    title: 'Esta cuenta no tiene acceso',
    text:
      'Ha iniciado sesión, pero esta cuenta no tiene acceso a esta página. Si necesita acceso, póngase en ' +
      'contacto con el administrador de este sitio.',
    other: 'Usar otra cuenta',
  },
  framed: {
    title: 'Inicie sesión para ver esto',
    text: 'El inicio de sesión necesita una ventana propia. Después vuelva a cargar esta página.',
  },
  unsent: {
    title: 'Todavía no se ha enviado nada',
    text: 'La aplicación no ha recibido nada. Quizá deba iniciar sesión primero.',
    reload:
      'Vuelva a cargar esta página y su navegador lo enviará de nuevo. ' +
      'Si vuelve a ver esta página, inicie sesión primero. O vuelva atrás: lo que escribió debería seguir ahí.',
  },
  providerDown: {
    title: '{provider} no responde',
    text: 'En este momento no se puede iniciar sesión allí. El problema no está en su cuenta.',
    other: 'Iniciar sesión de otra manera',
  },
  providerSays: 'El proveedor de identidad indica:',
  errors: {
    FWA_CALLBACK_FOREIGN: {
      title: 'Respuesta de otro proveedor',
      happened:
        'La respuesta procede de un proveedor de identidad distinto de aquel con el que empezó.',
      next: 'Vuelva a iniciar sesión desde el principio. Si el problema se repite, avise al administrador.',
    },
    FWA_CLIENT_INVALID: {
      title: 'Cliente no admitido',
      happened:
        'La aplicación que solicita acceso se describe de una forma que este sitio no admite.',
      next: 'Avise a los desarrolladores de la aplicación. Los detalles figuran abajo.',
    },
    FWA_CLIENT_RATE: {
      title: 'Demasiados clientes nuevos',
      happened: 'Esta cuenta ha utilizado demasiadas aplicaciones nuevas en poco tiempo.',
      next: 'Espere un minuto y vuelva a intentarlo.',
    },
    FWA_CLIENT_UNREACHABLE: {
      title: 'No se puede leer la descripción del cliente',
      happened: 'Este sitio no puede leer la descripción de la aplicación que solicita acceso.',
      next: 'Vuelva a intentarlo en un momento. Si no funciona, avise a los desarrolladores de la aplicación.',
    },
    FWA_COOKIES_BLOCKED: {
      title: 'El navegador no guarda cookies',
      happened: 'Su navegador no guarda las cookies de esta aplicación.',
      next: 'Permita las cookies de este sitio o abra la aplicación en una pestaña propia.',
    },
    FWA_COOKIE_DUPLICATE: {
      title: 'Cookie de sesión enviada dos veces',
      happened:
        'Otro sitio ha creado una segunda cookie de sesión, por lo que no se acepta ninguna de las dos.',
      next: 'Borre las cookies de este sitio en su navegador y vuelva a intentarlo.',
    },
    FWA_FORBIDDEN: {
      title: 'Acceso denegado a esta cuenta',
      happened: 'Esta cuenta no tiene acceso a esta página.',
      next: 'Use otra cuenta o pida acceso al administrador de este sitio.',
    },
    FWA_LOGIN_REFUSED: {
      title: 'Inicio de sesión rechazado',
      happened: 'El proveedor de identidad ha rechazado su inicio de sesión.',
      next: 'Vuelva a intentarlo o use otra cuenta.',
    },
    FWA_LOGIN_UNKNOWN: {
      title: 'Inicio de sesión caducado o iniciado en otro navegador',
      happened: 'El inicio de sesión ha tardado demasiado o comenzó en otro navegador.',
      next: 'Vuelva a intentarlo y permita las cookies de este sitio.',
    },
    FWA_OAUTH_INVALID: {
      title: 'La solicitud de esta aplicación no es válida',
      happened:
        'La aplicación que le ha enviado aquí ha cometido un error. No ha recibido ningún dato.',
      next: 'Vuelva a la aplicación e inténtelo de nuevo. Si se repite, envíe la información de abajo a su desarrollador.',
    },
    FWA_ORIGIN_FOREIGN: {
      title: 'Solicitud de otro sitio',
      happened: 'Otro sitio ha intentado cerrar una sesión. No se ha cambiado nada.',
      next: 'Si quiere cerrar una sesión, use las páginas de este sitio.',
    },
    FWA_PORTAL_UNKNOWN: {
      title: 'Portal desconocido',
      happened: 'En esta dirección no hay ninguna página de inicio de sesión.',
      next: 'Compruebe la dirección o vuelva a abrir la aplicación.',
    },
    FWA_PROVIDER_UNKNOWN: {
      title: 'Proveedor desconocido',
      happened: 'Esta página no tiene ningún proveedor de identidad con ese nombre.',
      next: 'Vuelva a abrir la aplicación y elija uno de la lista.',
    },
    FWA_PROVIDER_UNREACHABLE: {
      title: 'No se puede contactar con el proveedor',
      happened: 'El proveedor de identidad no responde.',
      next: 'Vuelva a intentarlo en un momento o inicie sesión de otra manera.',
    },
    FWA_SESSION_TOO_LARGE: {
      title: 'Sesión demasiado grande',
      happened:
        'El proveedor de identidad envía más datos sobre usted de los que caben en una cookie.',
      next: 'Pida al administrador que quite su cuenta de algunos grupos.',
    },
    FWA_SIGN_IN_LOOP: {
      title: 'Bucle de redirección',
      happened:
        'Ha iniciado sesión, pero la aplicación le devuelve una y otra vez al inicio de sesión.',
      next: 'Borre las cookies de este sitio y permita las cookies. Si el problema continúa, avise al administrador.',
    },
    FWA_SIGN_IN_POLICY: {
      title: 'Enlace de inicio de sesión no válido',
      happened: 'El enlace que ha seguido ya no es válido.',
      next: 'Vuelva a abrir la aplicación para obtener un enlace nuevo.',
    },
    FWA_SIGN_IN_RATE: {
      title: 'Demasiados inicios de sesión',
      happened: 'Esta cuenta ha iniciado sesión demasiadas veces en poco tiempo.',
      next: 'Espere un minuto y vuelva a intentarlo.',
    },
    FWA_STEP_UP_UNMET: {
      title: 'El inicio de sesión no es suficiente',
      happened:
        'Esta página exige otra forma de iniciar sesión, por ejemplo con un segundo factor.',
      next: 'Vuelva a intentarlo con el método que se le pide. Si el problema continúa, avise al administrador.',
    },
    FWA_STORE_STALE: {
      title: 'No se pueden comprobar las sesiones',
      happened: 'En este momento, este sitio no puede comprobar quién ha iniciado sesión.',
      next: 'Vuelva a intentarlo en unos minutos.',
    },
    NOT_FOUND: {
      title: 'Página no encontrada',
      happened: 'No hay nada en esta dirección.',
      next: 'Compruebe la dirección o vuelva a abrir la aplicación.',
    },
    SETUP: {
      title: 'Este sitio no está bien configurado',
      happened: 'Usted no ha hecho nada mal: hay que corregir la configuración de este sitio.',
      next: 'Envíe la información de abajo a su administrador.',
    },
    INTERNAL: {
      title: 'Algo ha salido mal',
      happened: 'Se ha producido un error en este sitio y ha quedado registrado.',
      next: 'Vuelva a intentarlo. Si se repite, envíe la información de abajo al administrador.',
    },
    REQUEST: {
      title: 'No se ha entendido la solicitud',
      happened: 'Este sitio no ha entendido la solicitud de su navegador.',
      next: 'Vuelva atrás e inténtelo de nuevo, o abra otra vez la aplicación.',
    },
  },
}
